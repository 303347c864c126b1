package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/fleet"
)

var update = flag.Bool("update", false, "write the golden files")

var now = fleet.Now

// run runs a command in namespace garden.
func run(t *testing.T, api client.Reader, args ...string) (string, error) {
	t.Helper()
	root := &cobra.Command{Use: "kubectl-mcm", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringP("output", "o", "table", "that of commands that write")
	root.AddCommand(Commands(Deps{
		Connect: func() (Clusters, error) { return Clusters{Control: api, Target: api, Namespace: "garden"}, nil },
		Now:     func() time.Time { return now },
	})...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args string
		code int
	}{
		"tree":          {"tree", 0},
		"tree-all":      {"tree workers --all", 0},
		"tree-wide":     {"tree -o wide -A", 0},
		"tree-machine":  {"tree workers-abcde-3 --no-headers", 0},
		"tree-name":     {"tree workers -o name", 0},
		"tree-select":   {"tree -l team=a", 0},
		"why-machine":   {"why machine/workers-abcde-3", exitWaits},
		"why-node":      {"why node/node-workers-abcde-1", 0},
		"why-pool":      {"why mcd/workers --no-headers", exitWaits},
		"why-capi":      {"why mcmmachine/blue-xyz-1", exitPerson},
		"why-cluster":   {"why prod", exitPerson},
		"why-json":      {"why machine/workers-abcde-3 -o json", exitWaits},
		"top":           {"top", 0},
		"top-wide":      {"top -A -o wide", 0},
		"top-columns":   {"top -o custom-columns=POOL:.object.name,WAITING:.waiting[*].reason", 0},
		"trace":         {"timeline machine/workers-abcde-1 -o chrome-trace", 0},
		"timeline":      {"timeline machine/workers-abcde-1", 0},
		"timeline-yaml": {"timeline mc/workers-abcde-3 -o yaml", 0},
		"why-selector":  {"why machines.machine.sapcloud.io -l name=workers -o name", 0},
		"why-yaml":      {"why cluster/prod machinedeployments.machine.sapcloud.io/workers -o yaml", exitPerson},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fleet.API(t, append(fleet.Native(), fleet.ClusterAPI()...)...).Build()
			got, err := run(t, api, strings.Fields(tc.args)...)
			if code, _ := errors.AsType[output.ExitCodeError](err); int(code) != tc.code || err != nil && tc.code == 0 {
				t.Errorf("error %v, want exit code %d", err, tc.code)
			}
			compare(t, name, got)
		})
	}
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if strings.Contains(got, "\x1b") {
		t.Error("colours, although the output is no terminal")
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for reason, tc := range map[string]struct{ args, want string }{
		"a pool that does not exist":     {"tree workers nobody", "nobody: no pool has that name"},
		"a format that no printer has":   {"tree -o xml", `output format "xml"`},
		"a selector that cannot be read": {"tree -l a=b=c", "--selector="},
		"a name with a selector":         {"why machine/workers-abcde-3 -l a=b", "with --selector name a kind"},
		"labels that no object has":      {"why machine -l a=b", "machine with labels a=b: no such object"},
		"metrics without a manager":      {"top --metrics-url http://127.0.0.1:1/metrics", "--metrics-url="},
		"a pool to top":                  {"top nobody", "nobody: no pool has that name"},
		"an object that does not exist":  {"why machine/nobody", "machine/nobody: no such object"},
		"a name that no object has":      {"why nobody", "nobody: no such object"},
		"a kind that is not known":       {"why pod/web", `kind "pod" is not known`},
		"the other API":                  {"why machine.cluster.x-k8s.io/workers-abcde-3", "no such object"},
		"nothing named":                  {"why", "requires at least 1 arg"},
		"a timeline of two":              {"timeline workers workers-abcde", "accepts 1 arg"},
		"a timeline of none":             {"timeline nobody", "no such object"},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, fleet.API(t, fleet.Native()...).Build(), strings.Fields(tc.args)...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if _, code := errors.AsType[output.ExitCodeError](err); code {
				t.Error("a failure looks like a finding")
			}
		})
	}
}

// TestVersionedOutput: programs find the version, and fields by JSONPath.
func TestVersionedOutput(t *testing.T) {
	t.Parallel()
	api := fleet.API(t, fleet.Native()...).Build()
	for args, kind := range map[string]string{
		"tree -o json": "Tree", "why workers -o json": "Explanation", "why workers workers-abcde -o json": "ExplanationList",
	} {
		out, _ := run(t, api, strings.Fields(args)...)
		var head metav1.TypeMeta
		if err := json.Unmarshal([]byte(out), &head); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
		if head.APIVersion != "cli.mcm.cluster.x-k8s.io/v1alpha1" || head.Kind != kind {
			t.Errorf("%s: %+v, want kind %s", args, head, kind)
		}
	}
	if out, _ := run(t, api, "why", "workers", "-o", "jsonpath={.missing.concern}"); out != "Capacity" {
		t.Errorf("JSONPath finds %q", out)
	}
}

// forbidding is an API server that refuses to list some kinds.
func forbidding(t *testing.T, refused func(client.ObjectList) bool, objects ...client.Object) client.Reader {
	t.Helper()
	return fleet.API(t, objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if refused(list) {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no right"))
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
}

// TestFewerPermissions: what may not be read is left out and told; without anything it fails.
func TestFewerPermissions(t *testing.T) {
	t.Parallel()
	nodes := forbidding(t, func(l client.ObjectList) bool { _, is := l.(*corev1.NodeList); return is }, fleet.Native()...)
	out, err := run(t, nodes, "tree", "workers", "--all")
	if err != nil || !strings.Contains(out, "Warning: not read: Nodes") || !strings.Contains(out, "/workers-abcde-1") {
		t.Errorf("error %v, want the machines and a warning about Nodes:\n%s", err, out)
	}
	all := forbidding(t, func(client.ObjectList) bool { return true }, fleet.Native()...)
	if _, err := run(t, all, "tree"); err == nil || !strings.Contains(err.Error(), "no right") {
		t.Errorf("error %v, want what is not allowed", err)
	}
}
