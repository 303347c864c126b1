package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// secretKeys are the entries of Secrets in the source of a driver, with where they are found.
type secretKeys struct {
	constants map[string]string   // by name
	groups    map[string][]string // by entry: the groups of cloud.SecretKeys that declare it
	read      map[string]string   // by entry: a place that reads it
}

// TestEachSecretKeyIsInOneGroup: what is a credential, and where it may go, follows from the groups. So
// each entry of a Secret that a driver reads is in exactly one of them.
func TestEachSecretKeyIsInOneGroup(t *testing.T) {
	t.Parallel()
	drivers := map[string][]source{}
	for _, s := range sources(t, under("cloud", isSource)) {
		if dir := path.Dir(s.name); path.Dir(dir) == "cloud" {
			drivers[dir] = append(drivers[dir], s)
		}
	}
	declaring := 0
	for dir, files := range drivers {
		found := secretKeysOf(files)
		if len(found.groups) > 0 {
			declaring++
		}
		for _, problem := range found.problems() {
			t.Errorf("%s: %s", dir, problem)
		}
	}
	if clouds := 8; declaring != clouds {
		t.Errorf("%d drivers declare the entries of their Secrets, want %d", declaring, clouds)
	}
}

// problems are the entries that are in no group although they are read, or in several.
func (k secretKeys) problems() []string {
	var found []string
	for _, entry := range slices.Sorted(maps.Keys(k.read)) {
		if len(k.groups[entry]) == 0 {
			found = append(found, "entry "+entry+" is read at "+k.read[entry]+" and in no group of cloud.SecretKeys")
		}
	}
	for _, entry := range slices.Sorted(maps.Keys(k.groups)) {
		if groups := k.groups[entry]; len(groups) > 1 {
			found = append(found, "entry "+entry+" is in several groups: "+strings.Join(groups, ", "))
		}
	}
	return found
}

func secretKeysOf(files []source) secretKeys {
	k := secretKeys{map[string]string{}, map[string][]string{}, map[string]string{}}
	for _, s := range files {
		ast.Inspect(s.file, k.constant)
	}
	for _, s := range files {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if n != nil {
				k.look(s, n)
			}
			return true
		})
	}
	return k
}

// constant notes what a constant of text is.
func (k secretKeys) constant(n ast.Node) bool {
	if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
		for i, name := range spec.Names {
			if text, ok := k.text(spec.Values[i]); ok {
				k.constants[name.Name] = text
			}
		}
	}
	return true
}

// text is the value of an expression, if it is a text or the name of a constant.
func (k secretKeys) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, ok := k.constants[e.Name]
		return text, ok
	}
	return "", false
}

// look notes the entries that n declares or reads: s.First(…) and s.Password(…) of a driverkit.Secret,
// first(…) and get(…) of the drivers that have them, and creds[…].
func (k secretKeys) look(s source, n ast.Node) {
	var read []ast.Expr
	switch n := n.(type) {
	case *ast.CompositeLit:
		if kind, ok := n.Type.(*ast.SelectorExpr); ok && kind.Sel.Name == "SecretKeys" {
			k.declare(n)
		}
	case *ast.IndexExpr:
		if x, ok := n.X.(*ast.Ident); ok && x.Name == "creds" {
			read = []ast.Expr{n.Index}
		}
	case *ast.CallExpr:
		switch f := n.Fun.(type) {
		case *ast.SelectorExpr:
			if f.Sel.Name == "First" || f.Sel.Name == "Password" {
				read = n.Args
			}
		case *ast.Ident:
			if f.Name == "first" || f.Name == "get" {
				read = n.Args
			}
		}
	}
	for _, e := range read {
		if entry, ok := k.text(e); ok {
			k.read[entry] = s.name + ":" + strconv.Itoa(s.line(e.Pos()))
		}
	}
}

// declare notes the groups of a cloud.SecretKeys.
func (k secretKeys) declare(keys *ast.CompositeLit) {
	for _, e := range keys.Elts {
		group, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		name, _ := group.Key.(*ast.Ident)
		list, _ := group.Value.(*ast.CompositeLit)
		if name == nil || list == nil {
			continue
		}
		for _, e := range list.Elts {
			if entry, ok := k.text(e); ok {
				k.groups[entry] = append(k.groups[entry], name.Name)
			}
		}
	}
}

func TestSecretKeysAreFound(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ text, want string }{
		"declared": {`var k = cloud.SecretKeys{Credential: []string{a}}; func f() { s.First(a) }`, ""},
		"not declared": {
			`var k = cloud.SecretKeys{Credential: []string{a}}; func f() { s.First(a, "b") }`,
			"entry b is read at x.go:2 and in no group of cloud.SecretKeys",
		},
		"index":    {`func f() { _ = creds["b"] }`, "entry b is read at x.go:2 and in no group of cloud.SecretKeys"},
		"password": {`func f() { s.Password(a) }`, "entry url is read at x.go:2 and in no group of cloud.SecretKeys"},
		"twice": {
			`var k = cloud.SecretKeys{Address: []string{"url"}, Public: []string{a}}`,
			"entry url is in several groups: Address, Public",
		},
	}
	for name, tc := range cases {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "x.go", "package x; const a = \"url\"\n"+tc.text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(secretKeysOf([]source{{"x.go", set, file}}).problems(), "; "); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
