package house

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A part of the tree, and what it may import besides itself and the standard
// library.
type part struct {
	ours   []string // names of other parts; "..." is everything
	theirs []string // path prefixes; "..." is everything
	not    []string // path prefixes that "..." leaves out
}

// parts has one line for each part of the tree. "x/*" is any folder directly
// under x without a line of its own, each a part by itself.
var parts = map[string]part{
	"api": {theirs: []string{
		"k8s.io/api/core/v1", "k8s.io/apimachinery/", "sigs.k8s.io/cluster-api/api/",
		"sigs.k8s.io/controller-runtime/pkg/scheme",
	}},
	"cloud":                   {},
	"cloud/testing/cloudtest": {ours: []string{"cloud"}},
	"cloud/lenient":           {ours: []string{"cloud"}},
	"cloud/driverkit":         {ours: []string{"cloud", "cloud/lenient"}},
	"cloud/mcmdriver":         {ours: []string{"cloud"}},
	"cloud/sim":               {ours: []string{"cloud", "cloud/driverkit", "cloud/lenient"}},
	"cloud/wrap": {ours: []string{"cloud", "cloud/driverkit"}, theirs: []string{
		"github.com/prometheus/client_golang/", "go.opentelemetry.io/otel",
		"golang.org/x/time/rate",
	}},
	// Doubles of clouds, beside the kit.
	"cloud/testing/*": {
		ours: []string{"cloud", "cloud/testing/cloudtest"}, theirs: []string{"..."}, not: []string{"k8s.io/", "sigs.k8s.io/"},
	},
	"cloud/*": {
		ours: []string{"cloud", "cloud/driverkit", "cloud/lenient", "cloud/wrap"}, theirs: []string{"..."},
		not: []string{"k8s.io/", "sigs.k8s.io/"},
	},

	// The placeholders are spelled in the API, and formats of user data are for drivers, too.
	"bootstrap":          {ours: []string{"api", "cloud"}, theirs: []string{"sigs.k8s.io/yaml"}},
	"bootstrap/bootdata": {ours: []string{"api", "bootstrap/userdata"}},
	"bootstrap/*": {
		ours: []string{"api", "bootstrap", "cloud"}, theirs: []string{"k8s.io/", "sigs.k8s.io/controller-runtime/"},
	},

	// The generator of boot data: a library of its own, without a controller's.
	"bootstrap/userdata": {theirs: []string{
		"github.com/blang/semver/v4", "k8s.io/apimachinery/pkg/util/", "k8s.io/kubelet/", "sigs.k8s.io/json",
		"sigs.k8s.io/yaml",
	}},

	"internal/fence": {ours: []string{"cloud"}, theirs: kubernetes},

	// Kubeconfigs out of Secrets, for all that connect with them.
	"internal/kubeconfig": {theirs: kubernetes},

	"internal/naming": {ours: []string{"api"}, theirs: []string{"github.com/google/uuid", "k8s.io/apimachinery/"}},

	"controllers/internal": {ours: []string{
		"api", "bootstrap", "bootstrap/bootdata", "cloud", "internal/fence", "internal/console", "internal/redact",
		"internal/naming",
	}, theirs: kubernetes},
	"controllers/metrics": {
		ours:   []string{"api", "controllers/internal"},
		theirs: append([]string{"github.com/prometheus/"}, kubernetes...),
	},
	// What may be replaced or deleted at once, for all that replace and delete.
	"controllers/safety/brake": {ours: []string{"api", "controllers/internal"}, theirs: kubernetes},
	"controllers/*": {ours: []string{
		"api", "bootstrap", "bootstrap/*", "bootstrap/bootdata", "cloud", "controllers/internal",
		"controllers/metrics", "controllers/safety/brake", "internal/fence", "internal/console", "internal/kubeconfig",
		"internal/naming",
	}, theirs: kubernetes},
	"controllers": {ours: []string{
		"api", "bootstrap/*", "cloud", "controllers/internal", "controllers/metrics",
		"controllers/*", "controllers/safety/brake", "internal/fence",
	}, theirs: kubernetes},

	// What all verbs of kubectl mcm read: the objects of both APIs, and the facts of an explanation.
	"ops/read": {ours: []string{"api", "bootstrap/*", "internal/console", "ops/explain"}, theirs: kubernetes},
	// The library below kubectl mcm: it knows the APIs, and no controller or driver.
	"ops/migration": {ours: []string{"api", "ops/read"}, theirs: kubernetes},
	// The library below kubectl mcm recover.
	"ops/recovery": {ours: []string{"api", "ops/migration", "ops/read", "internal/naming"}, theirs: kubernetes},

	// The library below kubectl mcm tree and why: it knows the APIs, and the names of bootstrap tokens
	// and of traces.
	"ops/explain": {ours: []string{"api", "bootstrap/*", "internal/console", "internal/naming"}, theirs: kubernetes},

	// What controllers and kubectl mcm share: one table of what the console of a machine that did not
	// join says, and one of what is redacted.
	"internal/console": {},
	// What the manager does to clusters and clouds, for its log.
	"internal/logging": {ours: []string{"cloud", "cloud/wrap"}, theirs: kubernetes},
	"internal/redact":  {theirs: []string{"k8s.io/apimachinery/", "sigs.k8s.io/yaml"}},

	// Traces of machines' lives, for the manager.
	"internal/tracing": {
		ours:   []string{"api", "ops/explain", "internal/naming"},
		theirs: append([]string{"go.opentelemetry.io/otel"}, kubernetes...),
	},

	// The manager as a library: it is given its drivers.
	"manager": {ours: []string{
		"api", "cloud", "cloud/wrap", "controllers", "controllers/internal", "controllers/*", "controllers/metrics",
		"internal/fence", "internal/logging", "internal/kubeconfig", "internal/tracing",
	}, theirs: append([]string{"github.com/prometheus/", "github.com/spf13/pflag", "go.opentelemetry.io/otel"},
		kubernetes...)},

	// The CRDs, for a program that judges manifests.
	"config": {},

	// The generator of the site, a module of its own.
	"docs/site": {theirs: []string{"github.com/yuin/goldmark"}},

	"cmd": {ours: []string{"..."}, theirs: []string{"..."}},
	// Programs that play a part, not the product: the product does not import them.
	"test": {ours: []string{"..."}, theirs: []string{"..."}},
}

var kubernetes = []string{
	"k8s.io/", "sigs.k8s.io/controller-runtime", "sigs.k8s.io/cluster-api/", "sigs.k8s.io/yaml",
	"github.com/prometheus/client_golang/", "github.com/go-logr/logr", "github.com/google/uuid",
	"github.com/blang/semver/v4", // Cluster API compares such versions
	"github.com/davecgh/go-spew",
}

// sdks live in cloud/<driver>, and in the doubles.
var sdks = []string{
	"github.com/aws/", "github.com/Azure/", "cloud.google.com/go", "github.com/gophercloud/", "github.com/vmware/",
	"github.com/hetznercloud/",
}

func TestImports(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t, isSource) {
		rule, folder := partOf(path.Dir(s.name))
		if rule == "" && strings.HasPrefix(s.name, "test/controlplane/") {
			continue // another module
		}
		allowed, known := parts[rule]
		if !known {
			t.Errorf("%s belongs to no part of the tree; see parts in test/house", s.name)
			continue
		}
		for _, spec := range s.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if problem := judge(rule, folder, allowed, imported); problem != "" {
				t.Errorf("%s:%d: %s", s.name, s.line(spec.Pos()), problem)
			}
		}
	}
}

// judge says what is wrong with an import of a package in folder; "" if nothing.
func judge(rule, folder string, allowed part, imported string) string {
	first, _, _ := strings.Cut(imported, "/")
	dir, ours := strings.CutPrefix(imported, module+"/")
	switch {
	case !strings.Contains(first, "."):
		return "" // standard library
	case ours:
		to, toFolder := partOf(dir)
		switch {
		case to == "test" && rule != "test":
			return "imports " + dir + ": test code stays in tests"
		case toFolder == folder || slices.Contains(allowed.ours, to) || slices.Contains(allowed.ours, "..."):
			return ""
		}
		return strconv.Quote(rule) + " may not import " + dir
	}
	if hasPrefix(sdks, imported) && rule != "cloud/*" && rule != "cloud/testing/*" && rule != "test" {
		return "imports " + imported + ": SDKs live in cloud/<driver>"
	}
	if hasPrefix(allowed.theirs, imported) || slices.Contains(allowed.theirs, "...") && !hasPrefix(allowed.not, imported) {
		return ""
	}
	return strconv.Quote(rule) + " may not import " + imported
}

func hasPrefix(prefixes []string, imported string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(imported, p) })
}

// partOf returns the line of parts that covers dir and the folder it stands for:
// "cloud/aws/x" is covered by "cloud/*" and belongs to "cloud/aws".
func partOf(dir string) (rule, folder string) {
	for ; dir != "."; dir = path.Dir(dir) {
		if _, ok := parts[dir]; ok {
			return dir, dir
		}
		if _, ok := parts[path.Dir(dir)+"/*"]; ok {
			return path.Dir(dir) + "/*", dir
		}
	}
	return "", ""
}

func TestImportRulesBite(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		from, imported string
		ok             bool
	}{
		"the contract is standard library only":    {"cloud", "k8s.io/api/core/v1", false},
		"the contract may use it":                  {"cloud", "net/http", true},
		"a driver sees no Kubernetes":              {"cloud/aws", "sigs.k8s.io/controller-runtime", false},
		"a driver has its SDK":                     {"cloud/aws", "github.com/aws/aws-sdk-go-v2/service/ec2", true},
		"a driver knows no other":                  {"cloud/aws", module + "/cloud/openstack", false},
		"a driver may have folders of its own":     {"cloud/aws/elb", module + "/cloud/aws", true},
		"the kit is standard library only":         {"cloud/testing/cloudtest", "github.com/google/go-cmp/cmp", false},
		"a controller has no driver":               {"controllers/machine", module + "/cloud/sim", false},
		"a controller knows no other":              {"controllers/machine", module + "/controllers/machineset", false},
		"a controller knows the contract":          {"controllers/machine", module + "/cloud", true},
		"a controller has the shared parts":        {"controllers/machine", module + "/controllers/internal/vm", true},
		"shared parts know no controller":          {"controllers/internal/vm", module + "/controllers/machine", false},
		"a controller explains nothing to kubectl": {"controllers/machine", module + "/ops/explain", false},
		"the API knows nothing of ours":            {"api/machine/v1alpha1", module + "/cloud", false},
		"SDKs stay out of controllers":             {"controllers/machine", "github.com/gophercloud/gophercloud/v2", false},
		"SDKs stay out of the manager":             {"cmd/manager", "github.com/vmware/govmomi", false},
		"a program has everything of ours":         {"cmd/manager", module + "/cloud/aws", true},
		"but no test code":                         {"cmd/manager", module + "/test/cluster", false},
		"the library is given its drivers":         {"manager", module + "/cloud/sim", false},
		"the library has the controllers":          {"manager", module + "/controllers", true},
		"test programs have everything":            {"test/demo", module + "/controllers/machine", true},
		"the list of controllers has the controls": {"controllers", module + "/controllers/machine", true},
	}
	for name, c := range cases {
		rule, folder := partOf(c.from)
		problem := judge(rule, folder, parts[rule], c.imported)
		if (problem == "") != c.ok {
			t.Errorf("%s: %s imports %s: got problem %q, want allowed %v", name, c.from, c.imported, problem, c.ok)
		}
	}
}
