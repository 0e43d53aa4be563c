"""AG-UI 1.0 (https://docs.ag-ui.com): the event log as its front ends read it. Our own protocol comes first."""
