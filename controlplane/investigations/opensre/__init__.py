"""The agent server's protocol of OpenSRE, so that its clients (bots, web) use this installation unchanged.

Addresses, members and event types are theirs; threads, runs and rights are ours.
"""
