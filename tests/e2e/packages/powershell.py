"""Parses a PowerShell script with a grammar that is not Microsoft's; prints the commands in their order.

No package registry has PowerShell itself, so this is as far as a script can be checked here.
"""

import sys
from pathlib import Path

import tree_sitter_powershell
from tree_sitter import Language, Parser


def walk(node):
    yield node
    for child in node.children:
        yield from walk(child)


source = Path(sys.argv[1]).read_bytes()
tree = Parser(Language(tree_sitter_powershell.language())).parse(source)
broken = [node for node in walk(tree.root_node) if node.type == "ERROR" or node.is_missing]
if broken:
    raise SystemExit("\n".join(f"line {node.start_point[0] + 1}: not understood" for node in broken))
for node in walk(tree.root_node):
    if node.type in ("command_name", "flow_control_statement"):
        print(source[node.start_byte : node.end_byte].decode().split()[0])
