package validate

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
)

const samples = "../../../config/samples"

var update = flag.Bool("update", false, "write the golden files")

// run runs the command, with text as its standard input, and returns its exit code.
func run(t *testing.T, in string, args ...string) (string, int) {
	t.Helper()
	root := &cobra.Command{Use: "kubectl-mcm", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringP("output", "o", "table", "that of commands that write")
	root.AddCommand(New(func() string { return "default" }))
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetIn(strings.NewReader(in))
	root.SetArgs(append([]string{"validate"}, args...))
	err := root.ExecuteContext(t.Context())
	if code, ok := errors.AsType[output.ExitCodeError](err); ok {
		return out.String(), int(code)
	}
	if coded, ok := errors.AsType[*output.CodedError](err); ok {
		return out.String() + err.Error(), coded.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), 0
}

// TestSamplesAreValid: who begins with a sample begins with something valid, without a note.
func TestSamplesAreValid(t *testing.T) {
	t.Parallel()
	folders, err := os.ReadDir(samples)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		text, code := run(t, "", "-f", filepath.Join(samples, folder.Name()), "--strict")
		if code != 0 || !strings.HasPrefix(text, "0 errors, 0 warnings, 0 notes in ") {
			t.Errorf("%s: exit code %d\n%s", folder.Name(), code, text)
		}
	}
}

// canary is the value of every Secret here: it must not appear in any text.
const canary = "canary-4711"

const class = `apiVersion: machine.sapcloud.io/v1alpha1
kind: MachineClass
metadata: {name: a}
provider: sim
providerSpec:
  {endpoint: "http://127.0.0.1:8484", region: sim-1, zone: sim-1a, instanceType: small, image: linux-1,
   tags: {kubernetes.io/cluster/sim: "1", kubernetes.io/role/node: "1"}}
secretRef: {name: s}
`

const secret = `---
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {accountID: canary-4711, secretKey: canary-4711, userData: canary-4711}
`

const pool = `---
apiVersion: machine.sapcloud.io/v1alpha1
kind: MachineDeployment
metadata: {name: pool}
spec:
  replicas: 1
  selector: {matchLabels: {name: pool}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata: {labels: {name: pool}}
    spec: {class: {kind: MachineClass, name: a}}
`

const set = `---
apiVersion: machine.sapcloud.io/v1alpha1
kind: MachineSet
metadata: {name: set}
spec:
  replicas: 1
  selector: {matchLabels: {name: set}}
  template:
    metadata: {labels: {name: set}}
    spec: {class: {kind: MachineClass, name: a}}
`

const template = `---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: MCMMachineTemplate
metadata: {name: t}
spec: {template: {spec: {machineClassRef: {name: a}}}}
`

const config = `---
apiVersion: bootstrap.cluster.x-k8s.io/v1alpha1
kind: MCMConfig
metadata: {name: c}
spec: {machineClassRef: {name: a}}
`

// all is valid; a case breaks one place of it.
const all = class + secret + pool + set + template + config

func TestBroken(t *testing.T) {
	t.Parallel()
	for reason, tc := range map[string]struct {
		old, new string // what is replaced in all
		want     string // a line; empty: none
		code     int
	}{
		"nothing": {"", "", "0 errors, 0 warnings, 0 notes in 6 objects; 0 objects of other kinds not judged", 0},
		"a field that the driver needs": {
			"region: sim-1, ", "", "Error: -: MachineClass/a: providerSpec.region: is missing; name the cloud's region", 1,
		},
		"a field that the driver does not know": {
			"image: linux-1,", "image: linux-1, colour: red,", "Warning: -: MachineClass/a: providerSpec.colour: ", 0,
		},
		"a cloud without a driver": {
			"provider: sim", "provider: none",
			`Error: -: MachineClass/a: provider: no driver is named "none", use one of ` +
				`AWS, Azure, GCP, Hetzner, OpenStack, kubevirt, sim, vsphere`, 1,
		},
		"a field of the wrong type": {
			"provider: sim", "provider: 5",
			"Error: -: MachineClass/a: provider: must be of type string: \"integer\"; correct it", 1,
		},
		"an unknown field": {
			"secretRef: {name: s}", "secretRef: {name: s, kind: x}",
			"Warning: -: MachineClass/a: secretRef.kind: is unknown and would be dropped; remove or correct it", 0,
		},
		"a key of the Secret": {
			"secretKey:", "secretkey:", "Error: -: MachineClass/a: secret.secretKey: is missing; put its secret key there", 1,
		},
		"no boot data": {
			"userData:", "userdata:", `Error: -: MachineClass/a: secretRef: the Secret has no entry "userData"`, 1,
		},
		"what is not base64": {
			"stringData: {accountID: canary-4711,", "data: {x: canary-4711}\nstringData: {accountID: canary-4711,",
			"Error: -: Secret/s: data.x: is not base64; encode it, or use stringData", 1,
		},
		"a Secret elsewhere": {
			secret, "", "Note: -: MachineClass/a: secretRef: these files do not have the Secret", 0,
		},
		"a class elsewhere": {
			class, "",
			`Note: -: MachineDeployment/pool: spec.template.spec.class.name: these files do not have MachineClass "a"`, 0,
		},
		"a pool that selects others": {
			"selector: {matchLabels: {name: pool}}", "selector: {matchLabels: {name: other}}",
			`Error: -: MachineDeployment/pool: spec.selector: "name=other" does not match spec.template.metadata.labels`, 1,
		},
		"a strategy that there is not": {
			"type: RollingUpdate", "type: Rolling", "Error: -: MachineDeployment/pool: spec.strategy.type: ", 1,
		},
		"a surge that is no number": {
			"maxSurge: 1", "maxSurge: some", "Error: -: MachineDeployment/pool: spec.strategy.rollingUpdate.maxSurge: ", 1,
		},
		"a set that selects all": {
			"selector: {matchLabels: {name: set}}", "selector: {}",
			"Error: -: MachineSet/set: spec.selector: must not be empty, because that selects every Machine", 1,
		},
		"a rule of the CRD": {
			"metadata: {name: c}\nspec: {machineClassRef: {name: a}}",
			"metadata: {name: c}\nspec: {machineClassRef: {name: a}, userDataSecretRef: {name: s}}",
			"Error: -: MCMConfig/c: spec: set exactly one of machineClassRef and userDataSecretRef", 1,
		},
		"a rule about a name": {
			"metadata: {name: c}\nspec: {machineClassRef: {name: a}}",
			"metadata: {name: c}\nspec: {machineClassRef: {name: A_b}}",
			"Error: -: MCMConfig/c: spec.machineClassRef.name: name a MachineClass: lower case letters", 1,
		},
		"a Secret of another namespace": {
			"secretRef: {name: s}\n---", "secretRef: {name: s, namespace: keys}\n---",
			"Error: -: MachineClass/a: secretRef: Secret keys/s is of another namespace and does not allow this one", 1,
		},
		"a Secret without boot data": {
			"metadata: {name: c}\nspec: {machineClassRef: {name: a}}",
			"metadata: {name: c}\nspec: {userDataSecretRef: {name: e}}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: e}",
			`Error: -: MCMConfig/c: spec.userDataSecretRef.name: Secret "e" has no entry "userData"`, 1,
		},
		"an object twice": {
			class, class + "---\n" + class, "Error: -: MachineClass/a: metadata.name: - has the same object", 1,
		},
		"no name": {
			"metadata: {name: c}", "metadata: {}", "Error: -: MCMConfig/(no name): metadata.name: is missing; set it", 1,
		},
		"a bad name": {
			"metadata: {name: c}", "metadata: {name: C}", "Error: -: MCMConfig/C: metadata.name: a lowercase RFC 1123", 1,
		},
		"no kind": {"kind: MCMConfig\n", "", "Error: -: has no apiVersion or no kind; add them", 1},
		"no YAML": {"kind: MCMConfig\n", "kind: [\n", "Error: -: is no YAML in its line 3; correct it", 1},
		"Secret in the parser's words": {
			"kind: MCMConfig\n", "kind: Secret\nstringData: {password: *" + canary + "}\n",
			"Error: -: is no YAML; correct it", 1,
		},
		"no object": {
			config, "---\n- a\n", "Error: -: is no object of Kubernetes; write apiVersion, kind and metadata", 1,
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(all, tc.old, tc.new, 1)
			if reason == "a Secret of another namespace" {
				text = strings.Replace(text, "metadata: {name: s}", "metadata: {name: s, namespace: keys}", 1)
			}
			if text == all && tc.old != "" {
				t.Fatalf("%q is not there", tc.old)
			}
			got, code := run(t, text, "-f", "-")
			if code != tc.code || !strings.Contains("\n"+got, "\n"+tc.want) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, tc.code, tc.want, got)
			}
			if strings.Contains(got, canary) {
				t.Errorf("the value of a Secret is printed:\n%s", got)
			}
			if _, strict := run(t, text, "-f", "-", "--strict"); (strict == 0) != (tc.old == "") {
				t.Errorf("exit code %d with --strict:\n%s", strict, got)
			}
		})
	}
}

// TestUsage: what was not judged has an exit code of its own.
func TestUsage(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for want, args := range map[string][]string{
		"--filename is missing":            {},
		"no such file":                     {"-f", "nowhere.yaml"},
		"unknown flag":                     {"--colour"},
		"unknown command":                  {"a.yaml"},
		`output format "xml"`:              {"-f", "-", "-o", "xml"},
		"has no .yaml, .yml or .json file": {"-f", empty},
	} {
		if text, code := run(t, "", args...); code != exitUsage || !strings.Contains(text, want) {
			t.Errorf("%v: exit code %d: %s, want %q", args, code, text, want)
		}
	}
}

// TestFolders: a folder of folders is read when that is asked for.
func TestFolders(t *testing.T) {
	t.Parallel()
	if text, code := run(t, "", "-f", samples, "-R"); code != 0 || !strings.Contains(text, "0 errors") {
		t.Errorf("exit code %d: %s", code, text)
	}
	list := `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}},` +
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}]}`
	text, code := run(t, list, "-f", "-")
	if code != 0 || !strings.Contains(text, "in 1 object; 1 object of another kind") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// TestJSON has the form that programs read.
func TestJSON(t *testing.T) {
	t.Parallel()
	text := strings.Replace(all, "region: sim-1, ", "colour: red, ", 1)
	got, code := run(t, text, "-f", "-", "-o", "json")
	if code != exitProblems {
		t.Errorf("exit code %d", code)
	}
	var report Report
	if err := json.Unmarshal([]byte(got), &report); err != nil || report.Kind != "ValidationReport" || report.Judged != 6 {
		t.Errorf("%v: %+v", err, report)
	}
	file := filepath.Join("testdata", "report.json")
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
	names, _ := run(t, text, "-f", "-", "-o", "name")
	if want := strings.Repeat("machineclass.machine.sapcloud.io/a\n", len(report.Problems)); names != want {
		t.Errorf("%q, want %q", names, want)
	}
}

// TestDocumentation: docs/kubectl-mcm.md shows what the command prints.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	const page = "../../../docs/kubectl-mcm.md"
	const begin = "<!-- capture: validate -->\n\n```console\n$ kubectl mcm validate -f pool.yaml\n"
	got, _ := run(t, "", "-f", "testdata/pool.yaml")
	got = strings.ReplaceAll(got, "testdata/", "")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	shown, after, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("%s has no %q", page, begin)
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+got+"```"+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(shown, got); diff != "" {
		t.Errorf("%s (-shown +printed):\n%s", page, diff)
	}
}
