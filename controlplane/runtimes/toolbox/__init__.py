"""The tools an agent may call, and the one place every call goes through."""

from controlplane.runtimes.toolbox.gate import ActionGate, Permit, action_digest
from controlplane.runtimes.toolbox.tool import Draft, NoArguments, Tool, ToolOutput
from controlplane.runtimes.toolbox.toolbox import Toolbox

__all__ = ["ActionGate", "Draft", "NoArguments", "Permit", "Tool", "ToolOutput", "Toolbox", "action_digest"]
