package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// module is the prefix of our own packages.
const module = "github.com/capmcm/cluster-api-provider-mcm/"

// A ref names a Go type. That of "" is unknown: the schema has to do.
type ref struct{ folder, name string }

// A constant is a value of a type of strings, and what its comment says about it.
type constant struct{ value, meaning string }

// A field is one of a struct, under its name in JSON.
type field struct {
	name string
	of   ref
}

// types are the Go types of the API.
type types struct {
	fields map[ref][]field
	values map[ref][]constant
}

// readTypes parses the packages below a folder.
func readTypes(api string) (*types, error) {
	names, err := filepath.Glob(filepath.Join(api, "*", "*", "*.go"))
	if err != nil {
		return nil, err
	}
	t := &types{fields: map[ref][]field{}, values: map[ref][]constant{}}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		relative, err := filepath.Rel(api, filepath.Dir(name))
		if err != nil {
			return nil, err
		}
		p := source{folder: "api/" + filepath.ToSlash(relative), imports: imports(file), types: t}
		for _, declaration := range file.Decls {
			if group, ok := declaration.(*ast.GenDecl); ok {
				p.collect(group)
			}
		}
	}
	return t, nil
}

// imports are the paths of a file's imports by the names they have in it.
func imports(file *ast.File) map[string]string {
	found := map[string]string{}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		found[name] = strings.TrimPrefix(path, module)
	}
	return found
}

// A source is a file whose declarations are collected.
type source struct {
	folder  string
	imports map[string]string
	types   *types
}

func (s *source) collect(group *ast.GenDecl) {
	for _, spec := range group.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if structure, ok := spec.Type.(*ast.StructType); ok {
				s.types.fields[ref{s.folder, spec.Name.Name}] = s.members(structure)
			}
		case *ast.ValueSpec:
			s.constant(group, spec)
		}
	}
}

// members are the fields of a struct. What is inlined is a field without a name.
func (s *source) members(structure *ast.StructType) []field {
	var found []field
	for _, member := range structure.Fields.List {
		if member.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(member.Tag.Value)
		if err != nil {
			continue
		}
		name, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if name == "" && options != "inline" {
			continue
		}
		found = append(found, field{name: name, of: s.typeOf(member.Type)})
	}
	return found
}

// typeOf is the type of a field, or of the elements of a list or map.
func (s *source) typeOf(expression ast.Expr) ref {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return s.typeOf(e.X)
	case *ast.ArrayType:
		return s.typeOf(e.Elt)
	case *ast.MapType:
		return s.typeOf(e.Value)
	case *ast.Ident:
		return ref{s.folder, e.Name}
	case *ast.SelectorExpr:
		if name, ok := e.X.(*ast.Ident); ok {
			return ref{s.imports[name.Name], e.Sel.Name}
		}
	}
	return ref{}
}

// constant notes the values of a type of strings.
func (s *source) constant(group *ast.GenDecl, spec *ast.ValueSpec) {
	kind, typed := spec.Type.(*ast.Ident)
	if group.Tok != token.CONST || !typed {
		return
	}
	doc := spec.Doc
	if doc == nil && !group.Lparen.IsValid() {
		doc = group.Doc
	}
	for i, name := range spec.Names {
		literal, ok := spec.Values[i].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			continue
		}
		of := ref{s.folder, kind.Name}
		s.types.values[of] = append(s.types.values[of], constant{value, meaning(name.Name, doc, spec.Comment)})
	}
}

// meaning is the comment of a constant, without its name.
func meaning(name string, doc, trailing *ast.CommentGroup) string {
	text := doc.Text()
	if trailing != nil {
		text = trailing.Text()
	}
	text = strings.TrimPrefix(strings.Join(strings.Fields(text), " "), name)
	return strings.TrimSuffix(strings.TrimSpace(strings.TrimPrefix(text, ":")), ".")
}

// members are the fields of a type, inlined ones included, in the order of the code.
func (t *types) members(of ref) []field {
	var found []field
	for _, f := range t.fields[of] {
		if f.name == "" {
			found = append(found, t.members(f.of)...)
			continue
		}
		found = append(found, f)
	}
	return found
}
