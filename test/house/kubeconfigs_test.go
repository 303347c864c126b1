package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// readers of kubeconfigs: package kubeconfig checks what comes out of Secrets, and the others read the
// files that whoever starts them names by a flag.
var kubeconfigReaders = map[string]string{
	"internal/kubeconfig/kubeconfig.go": "Load",
	"manager/kubeconfig.go":             "BuildConfigFromFlags",
	"cmd/kubectl-mcm/connect.go":        "BuildConfigFromFlags, ParseTimeout",
	"cmd/simcloud/main.go":              "BuildConfigFromFlags",
	"manager/workloads.go":              "connections through kubeconfig.NewReader",
	"cloud/kubevirt/kubeconfig.go":      "a driver without client-go",
}

// libraries that read a kubeconfig, or the Secret of one.
var kubeconfigLibraries = []string{
	"k8s.io/client-go/tools/clientcmd",
	"sigs.k8s.io/cluster-api/util/kubeconfig", "sigs.k8s.io/cluster-api/controllers/remote",
	"sigs.k8s.io/controller-runtime/pkg/client/config", "k8s.io/kubectl/",
}

// kubeconfigProblem returns what is wrong with how a file reads kubeconfigs; "" for nothing.
func kubeconfigProblem(s source) string {
	if _, known := kubeconfigReaders[s.name]; known {
		return ""
	}
	for _, spec := range s.file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil || strings.HasPrefix(imported, "k8s.io/client-go/tools/clientcmd/api") {
			continue // types only
		}
		if hasPrefix(kubeconfigLibraries, imported) {
			return "imports " + imported
		}
	}
	problem := ""
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		from, ok := call.X.(*ast.Ident)
		if ok && from.Name == "clustercache" && call.Sel.Name == "SetupWithManager" {
			problem = "opens connections of Cluster API"
		}
		return true
	})
	return problem
}

// TestKubeconfigsOfSecretsAreChecked: the libraries read files and run programs that a kubeconfig
// names. One out of a Secret reaches them through package kubeconfig only.
func TestKubeconfigsOfSecretsAreChecked(t *testing.T) {
	t.Parallel()
	product := func(name string) bool { return isSource(name) && !strings.HasPrefix(name, "test/") }
	var found []string
	for _, s := range sources(t, product) {
		found = append(found, s.name)
		if problem := kubeconfigProblem(s); problem != "" {
			t.Errorf("%s: %s: read it with package %s/internal/kubeconfig, or, if an operator names a file by a flag, "+
				"add it to kubeconfigReaders", s.name, problem, path.Base(module))
		}
	}
	for name := range kubeconfigReaders {
		if !slices.Contains(found, name) {
			t.Errorf("%s of kubeconfigReaders does not exist", name)
		}
	}
	if !strings.Contains(read(t, "manager/workloads.go"), "SecretClient:     kubeconfig.NewReader(") {
		t.Error("manager/workloads.go: Cluster API's connections read Secrets through kubeconfig.NewReader")
	}
}

func TestKubeconfigRuleBites(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		name, text string
		ok         bool
	}{
		"clientcmd reads files": {
			"controllers/x/x.go", `import "k8s.io/client-go/tools/clientcmd"`, false,
		},
		"so do Cluster API's helpers": {
			"controllers/x/x.go", `import "sigs.k8s.io/cluster-api/util/kubeconfig"`, false,
		},
		"another cache of connections reads Secrets": {
			"controllers/x/x.go", `func f() { clustercache.SetupWithManager() }`, false,
		},
		"types read nothing": {
			"controllers/x/x.go", `import "k8s.io/client-go/tools/clientcmd/api"`, true,
		},
		"a flag names a file": {
			"manager/kubeconfig.go", `import "k8s.io/client-go/tools/clientcmd"`, true,
		},
	}
	for name, c := range cases {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, c.name, "package x\n"+c.text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if problem := kubeconfigProblem(source{c.name, set, file}); (problem == "") != c.ok {
			t.Errorf("%s: problem %q, want allowed %v", name, problem, c.ok)
		}
	}
}
