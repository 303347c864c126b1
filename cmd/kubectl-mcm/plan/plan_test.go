package plan

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

var update = flag.Bool("update", false, "write the golden files")

func exitCode(err error) (int, bool) {
	code, ok := errors.AsType[output.ExitCodeError](err)
	return int(code), ok
}

// edited writes the object of a kind and name, changed, into a file, as somebody who edits a manifest does.
func edited[T client.Object](t *testing.T, kind string, o T, change func(T)) string {
	t.Helper()
	changed := o.DeepCopyObject().(T)
	change(changed)
	gvks, _, err := scheme(t).ObjectKinds(o)
	if err != nil {
		t.Fatal(err)
	}
	changed.GetObjectKind().SetGroupVersionKind(gvks[0])
	text, err := yaml.Marshal(changed)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]any{}
	if err := yaml.Unmarshal(text, &content); err != nil {
		t.Fatal(err)
	}
	delete(content, "status")
	metadata := content["metadata"].(map[string]any)
	for _, key := range []string{"uid", "resourceVersion", "creationTimestamp", "ownerReferences"} {
		delete(metadata, key)
	}
	if text, err = yaml.Marshal(content); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), kind+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// pool writes the native pool, changed, into a file.
func pool(t *testing.T, change func(*machinev1.MachineDeployment)) string {
	t.Helper()
	return edited(t, "pool", nativePool()[0].(*machinev1.MachineDeployment), change)
}

func class(name string) func(*machinev1.MachineDeployment) {
	return func(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.Class.Name = name }
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args   string
		change func(*machinev1.MachineDeployment) // of a pool in a file; nil: none
		code   int
	}{
		"replace": {"workers --class medium", nil, exitBlocked},
		"json":    {"workers --class medium -o json", nil, exitBlocked},
		"yaml":    {"workers --class small -o yaml", nil, 0},
		"name":    {"workers --class medium -o name", nil, exitBlocked},
		"columns": {
			"workers --class medium -o custom-columns=POOL:.object.name,REPLACED:.machines.replaced", nil, exitBlocked,
		},
		"wide":    {"workers --class medium -o wide", nil, exitBlocked},
		"nothing": {"", func(*machinev1.MachineDeployment) {}, 0},
		"inplace": {"", func(d *machinev1.MachineDeployment) {
			d.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"team": "a"}
		}, 0},
		"scale": {"", func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 5 }, 0},
		"paused": {"", func(d *machinev1.MachineDeployment) {
			d.Spec.Paused = true
			class("medium")(d)
		}, 0},
		"invalid": {"", func(d *machinev1.MachineDeployment) { d.Spec.Strategy.Type = "Other" }, exitRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := append(nativePool(), fixture.MachineClass("medium", fixture.In[*machinev1.MachineClass](garden)))
			args := append([]string{"plan"}, strings.Fields(tc.args)...)
			if tc.change != nil {
				args = append(args, "-f", pool(t, tc.change))
			}
			got, code := run(t, server(t, nil, objects...), args...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
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
		t.Errorf("-want +got, go test -update rewrites it:\n%s", diff)
	}
}

func TestBlockers(t *testing.T) {
	t.Parallel()
	for reason, tc := range map[string]struct {
		with []client.Object
		drop func(client.Object) bool
		code int
		want string // the line of a blocker; empty: there is none
	}{
		"a budget that allows nothing covers pods of nodes that are drained": {
			nil, nil, exitBlocked,
			"PodDisruptionBudget shop/web: allows no disruption now, and covers 2 pods on 2 nodes to be drained",
		},
		"nothing is in the way": {nil, func(o client.Object) bool {
			_, is := o.(*policyv1.PodDisruptionBudget)
			return is
		}, exitMoves, ""},
		"pods that have ended are no matter": {nil, func(o client.Object) bool {
			if pod, is := o.(*corev1.Pod); is {
				pod.Status.Phase = corev1.PodSucceeded
			}
			return false
		}, exitMoves, ""},
		"the class does not exist": {
			nil, func(o client.Object) bool { return o.GetName() == "medium" }, exitBlocked,
			"MachineClass medium: does not exist",
		},
		"the class is invalid": {[]client.Object{fixture.MachineClass("medium", fixture.In[*machinev1.MachineClass](garden),
			fixture.ProviderSpec(map[string]any{"region": nil}))}, nil, exitBlocked, "MachineClass medium: providerSpec.region"},
		"the cloud has no capacity for the class": {
			[]client.Object{waiting()},
			nil, exitBlocked,
			"Capacity medium: 1 machine of MachineClass medium: CapacityExhausted",
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			objects := append(nativePool(), fixture.MachineClass("medium", fixture.In[*machinev1.MachineClass](garden)))
			var kept []client.Object
			for _, o := range objects {
				replaced := len(tc.with) > 0 && tc.with[0].GetName() == o.GetName()
				if !replaced && (tc.drop == nil || !tc.drop(o)) {
					kept = append(kept, o)
				}
			}
			text, code := run(t, server(t, nil, append(kept, tc.with...)...), "plan", "workers", "--class", "medium")
			found := lines(text, "Blocker:")
			if code != tc.code || (found == "") != (tc.want == "") || !strings.Contains(found, tc.want) {
				t.Errorf("exit code %d, want %d with blocker %q\n%s", code, tc.code, tc.want, text)
			}
		})
	}
}

// waiting is a Machine of class medium that the cloud has no capacity for.
func waiting() *machinev1.Machine {
	return fixture.Machine("waiting", "medium", fixture.In[*machinev1.Machine](garden), func(m *machinev1.Machine) {
		m.Status.Progress = &machinev1.Progress{}
		m.Status.Progress.Conditions = append(m.Status.Progress.Conditions, falseCondition(machinev1.ConditionVMReady,
			"CapacityExhausted"))
	})
}

// TestRefused: the API server's own judgement is shown, and a reader without the right to try gets a plan
// with a warning.
func TestRefused(t *testing.T) {
	t.Parallel()
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "MachineDeployment"}, "workers",
		field.ErrorList{field.Invalid(field.NewPath("spec"), "x", "no rule admits it")})
	for reason, tc := range map[string]struct {
		answer error
		code   int
		want   string
	}{
		"a rule of the CRD":    {invalid, exitRefused, "no rule admits it"},
		"a reader's own right": {forbidden("no right"), exitBlocked, "the API server has not judged the change"},
		"an API server that fails": {
			errors.New("connection refused"), exitRefused,
			"dry run of MachineDeployment workers: connection refused",
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			api := server(t, func(verb string, _ client.Object) error {
				if verb == "patch" {
					return tc.answer
				}
				return nil
			}, append(nativePool(), fixture.MachineClass("medium", fixture.In[*machinev1.MachineClass](garden)))...)
			text, code := run(t, api, "plan", "-f", pool(t, class("medium")))
			if code != tc.code || !strings.Contains(text, tc.want) {
				t.Errorf("exit code %d, want %d and %q\n%s", code, tc.code, tc.want, text)
			}
			if tc.code == exitBlocked && !strings.Contains(text, "3 replaced") {
				t.Errorf("without the right to try it, the plan is another one:\n%s", text)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"plan":                           "no change is named",
		"plan workers":                   "workers: no change is named",
		"plan --class a":                 "--class=a names no pool",
		"plan workers -f x":              "both workers and -f are named",
		"plan workers --class a -o xml":  `output format "xml"`,
		"plan nobody --class a":          "nobody: no MachineDeployment has that name",
		"plan blue --class a":            "blue: is a pool of Cluster API",
		"plan -f testdata/none.yaml":     "no such file",
		"__completeNoDesc plan ":         "workers",
		"__completeNoDesc plan x -o yam": "yaml",
	} {
		text, _ := run(t, server(t, nil, append(nativePool(), clusterAPIPool()...)...), strings.Split(args, " ")...)
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %q", args, text, want)
		}
	}
}
