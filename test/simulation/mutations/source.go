package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// errNoFunction reports that a mutation has lost its target.
var errNoFunction = errors.New("there is no such function")

// function is a function of the product that is to be changed.
type function struct {
	files   *token.FileSet
	decl    *ast.FuncDecl
	source  string            // of the file
	names   map[string]string // what recv, arg0, arg1, … are called
	splices *[]splice         // of the file
}

// splice replaces a part of a file.
type splice struct {
	from, to int
	text     string
}

func (f *function) offset(p token.Pos) int { return f.files.Position(p).Offset }

func (f *function) splice(from, to token.Pos, text string) {
	*f.splices = append(*f.splices, splice{f.offset(from), f.offset(to), text})
}

// source is one parsed file of the product and what is to be changed in it.
type source struct {
	path    string // from the root of the repository
	text    string
	tree    *ast.File
	files   *token.FileSet
	splices []splice
}

// sources are the files of the packages that a mutation changes, by package.
type sources map[string][]*source

// Apply returns the text of each file that the mutation changes, by its path from
// the root. The error names the mutation and the function that it could not change.
func (m Mutation) Apply(root string) (map[string]string, error) {
	read := sources{}
	for _, t := range m.Targets {
		if err := read.apply(root, t); err != nil {
			return nil, fmt.Errorf("mutation %q lost its target %s.%s: %w", m.Name, t.Package, t.Func, err)
		}
	}
	changed := map[string]string{}
	for _, files := range read {
		for _, s := range files {
			if len(s.splices) == 0 {
				continue
			}
			text, err := s.changed()
			if err != nil {
				return nil, fmt.Errorf("mutation %q: %s: %w", m.Name, s.path, err)
			}
			changed[s.path] = text
		}
	}
	return changed, nil
}

// apply notes the edits of one function.
func (all sources) apply(root string, t Target) error {
	if all[t.Package] == nil {
		files, err := parse(root, t.Package)
		if err != nil {
			return err
		}
		all[t.Package] = files
	}
	for _, s := range all[t.Package] {
		for _, d := range s.tree.Decls {
			if decl, ok := d.(*ast.FuncDecl); ok && decl.Body != nil && nameOf(decl) == t.Func {
				f := &function{files: s.files, decl: decl, source: s.text, names: parameters(decl), splices: &s.splices}
				return t.Edit(f)
			}
		}
	}
	return errNoFunction
}

// parse reads the files of a package, without its tests.
func parse(root, pkg string) ([]*source, error) {
	entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(pkg)))
	if err != nil {
		return nil, err
	}
	var files []*source
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		s := &source{path: path.Join(pkg, e.Name()), files: token.NewFileSet()}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(s.path)))
		if err != nil {
			return nil, err
		}
		s.text = string(text)
		if s.tree, err = parser.ParseFile(s.files, s.path, text, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		files = append(files, s)
	}
	return files, nil
}

// nameOf is the name of a function as in a stack trace: f, T.f or (*T).f.
func nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	star := ""
	of := d.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		star, of = "*", pointer.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	name, ok := of.(*ast.Ident)
	switch {
	case !ok:
		return d.Name.Name
	case star != "":
		return fmt.Sprintf("(*%s).%s", name.Name, d.Name.Name)
	}
	return name.Name + "." + d.Name.Name
}

// parameters are the names of the receiver and the parameters of a function.
func parameters(d *ast.FuncDecl) map[string]string {
	names := map[string]string{}
	if d.Recv != nil && len(d.Recv.List[0].Names) > 0 {
		names["recv"] = d.Recv.List[0].Names[0].Name
	}
	i := 0
	for _, field := range d.Type.Params.List {
		for _, name := range field.Names {
			names["arg"+strconv.Itoa(i)] = name.Name
			i++
		}
	}
	return names
}

// changed is the text of the file with all changes. Imports that are not used
// any more stay for their side effects alone.
func (s *source) changed() (string, error) {
	slices.SortFunc(s.splices, func(a, b splice) int { return cmp.Compare(b.from, a.from) })
	text := s.text
	for _, p := range s.splices {
		text = text[:p.from] + p.text + text[p.to:]
	}
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, s.path, text, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	before, after := selected(s.tree), selected(tree)
	for _, spec := range slices.Backward(tree.Imports) {
		name := importName(spec)
		if before[name] && !after[name] {
			from, to := files.Position(spec.Pos()).Offset, files.Position(spec.End()).Offset
			text = text[:from] + "_ " + spec.Path.Value + text[to:]
		}
	}
	return text, nil
}

// selected are the names of which something is selected in a file.
func selected(tree *ast.File) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				names[x.Name] = true
			}
		}
		return true
	})
	return names
}

var version = regexp.MustCompile(`/v[0-9]+$`)

// importName is the name of an imported package in a file.
func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	name, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return ""
	}
	return path.Base(version.ReplaceAllString(name, ""))
}
