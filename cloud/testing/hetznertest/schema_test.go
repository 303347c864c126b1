package hetznertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The source of the schema.
const (
	schemaModule = "github.com/hetznercloud/hcloud-go/v2@v2.52.0"
	schemaSum    = "h1:BrQSFNuPhPZrWNdXKSEACX1hcS1TRzKSHMfFcXYRhDA="
)

// sources are the structs of a package by name.
type sources map[string]*ast.StructType

// read parses the package in a directory.
func read(t *testing.T, dir string) sources {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := sources{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if ok {
				if of, isStruct := spec.Type.(*ast.StructType); isStruct {
					all[spec.Name.Name] = of
				}
			}
			return true
		})
	}
	return all
}

// extract adds a type, and those that it consists of, in the form of schema.json.
func (s sources) extract(name string, into map[string]map[string]string) {
	of, isStruct := s[name]
	if _, done := into[name]; done || !isStruct || name == "IDOrName" {
		return
	}
	fields := map[string]string{}
	into[name] = fields
	s.fields(of, fields, into)
}

func (s sources) fields(of *ast.StructType, fields map[string]string, into map[string]map[string]string) {
	for _, f := range of.Fields.List {
		kind := types.ExprString(f.Type)
		if len(f.Names) == 0 {
			s.fields(s[kind], fields, into) // embedded: its fields are among the others
			continue
		}
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
		name, option, _ := strings.Cut(tag, ",")
		if name == "-" {
			continue
		}
		if fields[name] = strings.Replace(kind, "*map", "map", 1); option != "" {
			fields[name] += "," + option
		}
		s.extract(strings.TrimLeft(kind, "*[]"), into)
	}
}

// fetch returns the structs of Hetzner's client library. It skips the test where they cannot be had.
func fetch(t *testing.T) sources {
	t.Helper()
	if testing.Short() {
		t.Skip("it downloads a module")
	}
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", schemaModule)
	cmd.Dir = t.TempDir() // in no module, so that none requires it
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("the module with the schema cannot be had: %v", err)
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &module); err != nil || module.Sum != schemaSum {
		t.Fatalf("%s has the sum %s, %v, want %s", schemaModule, module.Sum, err, schemaSum)
	}
	return read(t, filepath.Join(module.Dir, "hcloud", "schema"))
}

// text is the extract: a line for each type.
func (s sources) text(t *testing.T) []byte {
	t.Helper()
	all := map[string]map[string]string{}
	s.extract("Meta", all)
	for _, r := range routes() {
		s.extract(r.request, all)
		s.extract(r.answer, all)
	}
	line := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var b bytes.Buffer
	const licence = "hcloud/schema, MIT License, Copyright (c) 2018-2020 Hetzner Cloud GmbH"
	fmt.Fprintf(&b, "{\"source\": %s,\n\"types\": {\n", line(schemaModule+" "+licence))
	for i, name := range slices.Sorted(maps.Keys(all)) {
		comma := ","
		if i == len(all)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "%s: %s%s\n", line(name), line(all[name]), comma)
	}
	b.WriteString("}}\n")
	return b.Bytes()
}

// TestSchemaIsCurrent: the extract is what Hetzner publishes, so that the gate is not the author's own
// idea of the API. HETZNERTEST_UPDATE=1 writes it.
func TestSchemaIsCurrent(t *testing.T) {
	t.Parallel()
	const file = "schema.json"
	got := fetch(t).text(t)
	if os.Getenv("HETZNERTEST_UPDATE") != "" {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what %s says, %v; HETZNERTEST_UPDATE=1 writes it", file, schemaModule, err)
	}
}
