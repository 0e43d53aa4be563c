"""The tools an agent may call, and the one place every call goes through."""

from controlplane.runtimes.toolbox.tool import Draft, NoArguments, Tool, ToolOutput
from controlplane.runtimes.toolbox.toolbox import Toolbox

__all__ = ["Draft", "NoArguments", "Tool", "ToolOutput", "Toolbox"]
