/* Names in JavaScript files, by the syntax tree: node --expose-internals names.js FILE...
   Prints a JSON list of {file, line, message} for names that are used but not declared,
   declared but never used, declared twice in one scope, or declared by let and never
   assigned again. The parser is acorn, which Node itself contains and eslint uses. */
"use strict";
const { readFileSync } = require("fs");
const { parse } = require("internal/deps/acorn/acorn/dist/acorn");

// What browsers and JavaScript define, as far as our pages use it.
const GLOBALS = new Set([
  ..."Array BigInt Blob Boolean DOMParser Error Infinity JSON Map".split(" "),
  ..."Math NaN Number Object".split(" "),
  ..."Promise Set String URL URLSearchParams WebSocket XMLSerializer".split(" "),
  ..."Float64Array Int32Array Image isFinite parseFloat parseInt undefined".split(" "),
  ..."cancelAnimationFrame clearInterval clearTimeout document".split(" "),
  ..."encodeURIComponent fetch".split(" "),
  ..."getComputedStyle globalThis history localStorage location matchMedia".split(" "),
  ..."navigator performance requestAnimationFrame setInterval".split(" "),
  ..."setTimeout window Plotly DOCUMENTATION_OPTIONS".split(" "),
]);
const isFunction = ({ type }) => /Function/.test(type);
const isShared = (name) => name.startsWith("tutelage"); // by the scripts of one page

class Scope {
  constructor(outer) {
    this.outer = outer;
    this.names = new Map(); // of {node, kind, used, assigned}
  }

  find(name) {
    return this.names.get(name) ?? this.outer?.find(name);
  }
}

// The identifiers that a pattern such as {a, b: [c]} declares.
function* declaredBy(pattern) {
  if (pattern === null) return;
  switch (pattern.type) {
    case "Identifier": yield pattern; break;
    case "ObjectPattern":
      for (const { value, argument } of pattern.properties)
        yield* declaredBy(value ?? argument);
      break;
    case "ArrayPattern":
      for (const element of pattern.elements) yield* declaredBy(element);
      break;
    case "AssignmentPattern": yield* declaredBy(pattern.left); break;
    case "RestElement": yield* declaredBy(pattern.argument); break;
  }
}

// In const {a, ...rest} = b the name a serves to leave it out of rest.
const leavesRest = ({ type, properties }) => type === "ObjectPattern"
  && properties.some((part) => part.type === "RestElement");

function check(file) {
  const findings = [];
  const source = readFileSync(file, "utf8");
  const tree = parse(source, { ecmaVersion: "latest", locations: true });
  const report = (node, message) => findings.push(
    { file, line: node.loc.start.line, message }
  );

  function declare(scope, node, kind) {
    if (scope.names.has(node.name)) report(node, `${node.name} is declared twice`);
    scope.names.set(node.name, { node, kind, used: false, assigned: false });
  }

  // Declarations count in their whole block, so they are collected first.
  function collect(statements, scope) {
    for (const statement of statements) {
      if (statement.type === "VariableDeclaration")
        for (const { id } of statement.declarations)
          for (const name of declaredBy(id))
            declare(scope, name, leavesRest(id) ? "sibling" : statement.kind);
      if (["FunctionDeclaration", "ClassDeclaration"].includes(statement.type))
        declare(scope, statement.id, "function");
    }
  }

  function use(node, scope, { reads = true, writes = false } = {}) {
    const found = scope.find(node.name);
    if (found) {
      found.used ||= reads;
      found.assigned ||= writes;
    } else if (!GLOBALS.has(node.name) && !isShared(node.name)) {
      report(node, `${node.name} is not declared`);
    }
  }

  function close(scope) {
    for (const [name, { node, kind, used, assigned }] of scope.names) {
      const mayBeUnused = ["parameter", "sibling"].includes(kind) || isShared(name);
      if (!used && !mayBeUnused)
        report(node, `${name} is never used`);
      if (kind === "let" && !assigned && !node.isLoop)
        report(node, `${name} is never assigned again: use const`);
    }
  }

  function walkFunction(node, scope) {
    const inner = new Scope(scope);
    if (node.type === "FunctionExpression" && node.id)
      declare(inner, node.id, "parameter");
    for (const parameter of node.params)
      for (const name of declaredBy(parameter)) declare(inner, name, "parameter");
    for (const parameter of node.params) walkDefaults(parameter, inner);
    if (node.body.type === "BlockStatement") {
      collect(node.body.body, inner);
      for (const statement of node.body.body) walk(statement, inner);
    } else {
      walk(node.body, inner);
    }
    close(inner);
  }

  // The expressions inside a pattern that declares names.
  function walkDefaults(pattern, scope) {
    if (pattern === null) return;
    if (pattern.type === "AssignmentPattern") {
      walk(pattern.right, scope);
      walkDefaults(pattern.left, scope);
    }
    for (const part of pattern.properties ?? pattern.elements ?? [])
      if (part) walkDefaults(part.value ?? part.argument ?? part, scope);
  }

  function walkAssigned(target, scope, reads) {
    for (const name of declaredBy(target)) use(name, scope, { reads, writes: true });
    if (target.type === "MemberExpression") walk(target, scope);
  }

  function walkBlock(node, scope) {
    const inner = new Scope(scope);
    const heads = [node.init, node.left].filter(Boolean);
    collect([...(node.type === "BlockStatement" ? node.body : []), ...heads], inner);
    if (node.type === "CatchClause" && node.param)
      for (const name of declaredBy(node.param)) declare(inner, name, "parameter");
    if (node.type === "SwitchStatement")
      collect(node.cases.flatMap((part) => part.consequent), inner);
    if (node.left?.type === "VariableDeclaration")
      for (const { node: name } of inner.names.values()) name.isLoop = true;
    walkChildren(node, inner);
    close(inner);
  }

  function walkChildren(node, scope) {
    for (const child of Object.values(node).flat())
      if (child && typeof child.type === "string") walk(child, scope);
  }

  function walk(node, scope) {
    if (isFunction(node)) return walkFunction(node, scope);
    switch (node.type) {
      case "Identifier": return use(node, scope);
      case "VariableDeclarator":
        walkDefaults(node.id, scope);
        if (node.init) walk(node.init, scope);
        return;
      case "AssignmentExpression":
        walkAssigned(node.left, scope, node.operator !== "=");
        return walk(node.right, scope);
      case "UpdateExpression": return walkAssigned(node.argument, scope, true);
      case "MemberExpression":
        walk(node.object, scope);
        if (node.computed) walk(node.property, scope);
        return;
      case "Property":
      case "MethodDefinition":
      case "PropertyDefinition":
        if (node.computed) walk(node.key, scope);
        if (node.value) walk(node.value, scope);
        return;
      case "BlockStatement":
      case "ForStatement":
      case "ForOfStatement":
      case "ForInStatement":
      case "SwitchStatement":
      case "CatchClause": return walkBlock(node, scope);
      default: return walkChildren(node, scope);
    }
  }

  const outermost = new Scope(null);
  collect(tree.body, outermost);
  for (const statement of tree.body) walk(statement, outermost);
  close(outermost);
  return findings;
}

console.log(JSON.stringify(process.argv.slice(2).flatMap(check)));
