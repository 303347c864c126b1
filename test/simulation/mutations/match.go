package main

import (
	"go/ast"
	"go/token"
	"reflect"
)

// bindings are the nodes that the wildcards of a pattern stand for.
type bindings map[string]ast.Node

// isWildcard reports whether a name in a pattern stands for any expression: it is
// one small letter.
func isWildcard(name string) bool { return len(name) == 1 && 'a' <= name[0] && name[0] <= 'z' }

// match reports whether an expression has the form of a pattern, and binds the
// pattern's wildcards. A wildcard that occurs twice stands for the same name.
func match(pattern, expr ast.Expr, bound bindings) bool {
	if name, ok := pattern.(*ast.Ident); ok && isWildcard(name.Name) {
		before, again := bound[name.Name]
		if !again {
			bound[name.Name] = expr
			return true
		}
		return equal(reflect.ValueOf(before), reflect.ValueOf(expr), nil)
	}
	return equal(reflect.ValueOf(pattern), reflect.ValueOf(expr), bound)
}

// equal compares two parts of a syntax tree, apart from where they stand. bound is nil where wildcards mean nothing.
func equal(a, b reflect.Value, bound bindings) bool {
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return false
	}
	if !a.IsValid() || a.Type() == reflect.TypeFor[token.Pos]() {
		return true
	}
	switch a.Kind() { //nolint:exhaustive // the others are plain values
	case reflect.Pointer:
		return a.IsNil() == b.IsNil() && (a.IsNil() || equal(a.Elem(), b.Elem(), bound))
	case reflect.Interface:
		x, isExpr := reflect.TypeAssert[ast.Expr](a)
		if y, ok := reflect.TypeAssert[ast.Expr](b); ok && isExpr && bound != nil {
			return match(x, y, bound)
		}
		return equal(a.Elem(), b.Elem(), bound)
	case reflect.Slice:
		return equalLists(a, b, bound)
	case reflect.Struct:
		for i := range a.NumField() {
			if !equal(a.Field(i), b.Field(i), bound) {
				return false
			}
		}
		return true
	}
	return a.Interface() == b.Interface()
}

func equalLists(a, b reflect.Value, bound bindings) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if !equal(a.Index(i), b.Index(i), bound) {
			return false
		}
	}
	return true
}
