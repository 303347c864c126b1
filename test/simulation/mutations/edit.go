package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"strings"
)

// errNoMatch reports that a function has nothing that an edit could change.
var errNoMatch = errors.New("nothing in the function matches")

// An Edit changes the source of one function.
//
// Patterns are Go expressions in which each name of one small letter stands for
// any expression, as in gofmt -r. Replacements use the same letters for what these
// stood for, recv for the receiver and arg0, arg1, … for the parameters, so that
// renaming a local variable does not break an edit.
type Edit func(*function) error

// Replace replaces every expression of the form of pattern. Where a call that
// returns several values is replaced, so is it by a list of values.
func Replace(pattern, with string) Edit {
	return func(f *function) error {
		return f.each(pattern, func(found ast.Expr, _ []ast.Node, bound bindings) {
			f.splice(found.Pos(), found.End(), f.render(with, bound))
		})
	}
}

// Swap exchanges two expressions wherever they stand.
func Swap(a, b string) Edit {
	return func(f *function) error {
		for _, pair := range [][2]string{{a, b}, {b, a}} {
			if err := Replace(pair[0], pair[1])(f); err != nil {
				return err
			}
		}
		return nil
	}
}

// Drop removes the innermost statement that has an expression of the form of pattern.
func Drop(pattern string) Edit {
	return func(f *function) error {
		return f.each(pattern, func(_ ast.Expr, path []ast.Node, _ bindings) {
			s := statement(path)
			f.splice(s.Pos(), s.End(), "")
		})
	}
}

// Before puts statements before the innermost one that has an expression of the
// form of pattern.
func Before(pattern, statements string) Edit {
	return func(f *function) error {
		return f.each(pattern, func(_ ast.Expr, path []ast.Node, bound bindings) {
			s := statement(path)
			f.splice(s.Pos(), s.Pos(), f.render(statements, bound)+"\n")
		})
	}
}

// Begin puts statements at the beginning of the function.
func Begin(statements string) Edit {
	return func(f *function) error {
		at := f.decl.Body.Lbrace + 1
		f.splice(at, at, "\n"+f.render(statements, nil)+"\n")
		return nil
	}
}

// Body replaces all that the function does.
func Body(statements string) Edit {
	return func(f *function) error {
		f.splice(f.decl.Body.Lbrace+1, f.decl.Body.Rbrace, "\n"+f.render(statements, nil)+"\n")
		return nil
	}
}

// each calls do for every outermost expression of the form of pattern. path leads
// there from the function.
func (f *function) each(pattern string, do func(found ast.Expr, path []ast.Node, bound bindings)) error {
	wanted, err := parser.ParseExprFrom(token.NewFileSet(), "", pattern, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("pattern %q: %w", pattern, err)
	}
	matches := 0
	var path []ast.Node
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return true
		}
		if e, ok := n.(ast.Expr); ok {
			if bound := (bindings{}); match(wanted, e, bound) {
				matches++
				do(e, path, bound)
				return false
			}
		}
		path = append(path, n)
		return true
	})
	if matches == 0 {
		return fmt.Errorf("%q: %w", pattern, errNoMatch)
	}
	return nil
}

// statement returns the last statement of a path that stands in a list.
func statement(path []ast.Node) ast.Node {
	for i := len(path) - 1; i > 0; i-- {
		switch path[i-1].(type) {
		case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
			if s, ok := path[i].(ast.Stmt); ok {
				return s
			}
		}
	}
	return path[0]
}

// render puts the source of what names are bound to into the place of those names.
func (f *function) render(text string, bound bindings) string {
	var s scanner.Scanner
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	s.Init(file, []byte(text), nil, 0)
	var out strings.Builder
	copied, selects := 0, false
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		if source, found := f.meaning(literal, bound); tok == token.IDENT && !selects && found {
			at := file.Offset(pos)
			out.WriteString(text[copied:at] + source)
			copied = at + len(literal)
		}
		selects = tok == token.PERIOD
	}
	return out.String() + text[copied:]
}

// meaning is the source that a name in a replacement stands for.
func (f *function) meaning(name string, bound bindings) (string, bool) {
	if n, found := bound[name]; found {
		source := f.source[f.offset(n.Pos()):f.offset(n.End())]
		if _, composed := n.(*ast.BinaryExpr); composed {
			source = "(" + source + ")"
		}
		return source, true
	}
	source, found := f.names[name]
	return source, found
}
