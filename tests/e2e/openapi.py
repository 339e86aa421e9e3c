"""An OpenAPI file of docs/, and what of a value does not keep to it: the keywords that our files use."""
import json
import pathlib
import re

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
TYPES = {"string": str, "integer": int, "object": dict, "array": list, "boolean": bool, "null": type(None)}


class Described:
    def __init__(self, name):
        self.document = json.loads((DOCS / name).read_text())

    def complaints(self, value, schema, where="$"):
        """What of |schema| |value| does not keep."""
        if "$ref" in schema:
            node = self.document
            for part in schema["$ref"].split("/")[1:]:
                node = node[part]
            return self.complaints(value, node, where)
        if "oneOf" in schema:
            found = [self.complaints(value, one, where) for one in schema["oneOf"]]
            return [] if sum(not f for f in found) == 1 else [f"{where}: not exactly one of {found}"]
        if "const" in schema:
            return [] if value == schema["const"] else [f"{where}: not {schema['const']}"]
        out = []
        types = schema.get("type", [])
        types = [types] if isinstance(types, str) else types
        if types and not any(isinstance(value, TYPES[t]) and not (t == "integer" and isinstance(value, bool)) for t in types):
            return [f"{where}: {value!r} is none of {types}"]
        if "enum" in schema and value not in schema["enum"]:
            out.append(f"{where}: {value!r} is none of {schema['enum']}")
        if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
            out.append(f"{where}: {value!r} does not match")
        if isinstance(value, int) and value < schema.get("minimum", value):
            out.append(f"{where}: too small")
        if isinstance(value, list):
            for i, item in enumerate(value):
                out += self.complaints(item, schema.get("items", {}), f"{where}[{i}]")
        if isinstance(value, dict):
            properties = schema.get("properties", {})
            out += [f"{where}: {name} is missing" for name in schema.get("required", []) if name not in value]
            for name, item in value.items():
                if name in properties:
                    out += self.complaints(item, properties[name], f"{where}.{name}")
                elif schema.get("additionalProperties") is False:
                    out.append(f"{where}.{name} is not described")
        return out

    def members(self, value, schema):
        """Which of the described members are in |value|: their places in the file."""
        if "$ref" in schema:
            node = self.document
            for part in schema["$ref"].split("/")[1:]:
                node = node[part]
            return self.members(value, node)
        found = set()
        for one in schema.get("oneOf", []):
            if not self.complaints(value, one):
                found |= self.members(value, one)
        if isinstance(value, list):
            for item in value:
                found |= self.members(item, schema.get("items", {}))
        if isinstance(value, dict):
            for name, described in schema.get("properties", {}).items():
                if name in value:
                    found |= {(id(schema), name)} | self.members(value[name], described)
        return found

    def described_members(self, schema, seen=()):
        """All that members() can find."""
        if "$ref" in schema:
            node = self.document
            for part in schema["$ref"].split("/")[1:]:
                node = node[part]
            return self.described_members(node, seen)
        found = set()
        if id(schema) in seen:
            return found
        items = [schema["items"]] if "items" in schema else []
        for below in [*schema.get("oneOf", []), *items, *schema.get("properties", {}).values()]:
            found |= self.described_members(below, (*seen, id(schema)))
        return found | {(id(schema), name) for name in schema.get("properties", {})}

    def content(self, operation, status):
        """The media type of what |operation| answers with |status|, and its description."""
        response = operation["responses"][str(status)]
        if "$ref" in response:
            response = self.document["components"]["responses"][response["$ref"].split("/")[-1]]
        return next(iter(response["content"].items()))
