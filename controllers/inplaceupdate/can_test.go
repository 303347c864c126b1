package inplaceupdate

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

const (
	plain     = `{"machineClassRef":{"name":"c1"}}`
	labelled  = `{"machineClassRef":{"name":"c1"},"nodeTemplate":{"labels":{"a":"b"}}}`
	tainted   = `{"machineClassRef":{"name":"c1"},"nodeTemplate":{"taints":[{"key":"k","effect":"NoSchedule"}]}}`
	mistaken  = `{"machineClassRef":{"name":"c1"},"nodeTemplate":{"labels":{"a":"not a value"}}}`
	ofClass2  = `{"machineClassRef":{"name":"c2"}}`
	ofClass3  = `{"machineClassRef":{"name":"c3"}}`
	ofNoClass = `{"machineClassRef":{"name":"none"}}`
	unknown   = `{"machineClassRef":{"name":"c1"},"later":1}`
	data1     = `{"userDataSecretRef":{"name":"d1"}}`
	data2     = `{"userDataSecretRef":{"name":"d2"}}`
)

// side is one side of a question about MachineSets.
type side struct {
	infra, config     string // specs
	infraKind, within string // kind, and metadata inside of the template
	configKind        string
	spec              clusterv1.MachineSpec
	agent             string
}

func (s side) objects() runtimehooksv1.CanUpdateMachineSetRequestObjects {
	if s.infraKind == "" {
		s.infraKind = "infrastructure.cluster.x-k8s.io/v1alpha1 MCMMachineTemplate"
	}
	if s.configKind == "" {
		s.configKind = "bootstrap.cluster.x-k8s.io/v1alpha1 MCMConfigTemplate"
	}
	var o runtimehooksv1.CanUpdateMachineSetRequestObjects
	o.MachineSet.Namespace, o.MachineSet.Name = "ns", "set"
	o.MachineSet.Spec.Template.Spec = s.spec
	if s.agent != "" {
		o.MachineSet.Spec.Template.Annotations = map[string]string{infrav1.NodeAgentUpdatesAnnotation: s.agent}
	}
	o.InfrastructureMachineTemplate = template(s.infraKind, s.infra, s.within)
	if s.config != "" {
		o.BootstrapConfigTemplate = template(s.configKind, s.config, "")
	}
	return o
}

func template(kind, spec, metadata string) runtime.RawExtension {
	version, kind, _ := strings.Cut(kind, " ")
	inside := `"spec":` + spec
	if metadata != "" {
		inside = `"metadata":` + metadata + `,` + inside
	}
	return runtime.RawExtension{Raw: []byte(`{"apiVersion":"` + version + `","kind":"` + kind +
		`","metadata":{"name":"t"},"spec":{"template":{` + inside + `}}}`)}
}

// classes: c2 has another image than c1, c3 another type too.
func classes() []client.Object {
	class := func(name, spec string) client.Object {
		return &machinev1.MachineClass{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Provider: "sim",
			ProviderSpec: runtime.RawExtension{Raw: []byte(spec)},
		}
	}
	credentials := class("other-credentials", `{"image":"1","disk":{"size":1,"kind":"a"}}`).(*machinev1.MachineClass)
	credentials.CredentialsSecretRef = &corev1.SecretReference{Name: "x"}
	data := class("other-data", `{"image":"1","disk":{"size":1,"kind":"a"}}`).(*machinev1.MachineClass)
	data.SecretRef = &corev1.SecretReference{Name: "x"}
	return []client.Object{
		credentials, data,
		class("c1", `{"image":"1","disk":{"size":1,"kind":"a"}}`), class("c2", `{"image":"2","disk":{"size":1,"kind":"a"}}`),
		class("c3", `{"image":"2","disk":{"size":2,"kind":"a"}}`),
	}
}

func extension(t *testing.T, objects []client.Object, funcs interceptor.Funcs) *Extension {
	t.Helper()
	c := harness.New(t, harness.With(objects...), harness.Answered(funcs)).Client
	return New(Deps{Client: c, Live: c})
}

func TestCanUpdateMachineSet(t *testing.T) {
	t.Parallel()
	version := func(v string) clusterv1.MachineSpec { return clusterv1.MachineSpec{Version: v} }
	zone := func(z string) clusterv1.MachineSpec { return clusterv1.MachineSpec{FailureDomain: z} }
	data := func(name string) clusterv1.MachineSpec {
		return clusterv1.MachineSpec{Bootstrap: clusterv1.Bootstrap{DataSecretName: new(name)}}
	}
	const at = "/spec/template/spec/"
	cases := []struct {
		reason   string
		was, is  side
		patches  [3]string // of MachineSet, infrastructure and bootstrap
		message  string
		problems bool
	}{
		{
			"labels of the Node are surely in place",
			side{infra: plain},
			side{infra: labelled},
			[3]string{"", `[{"op":"add","path":"` + at + `nodeTemplate","value":{"labels":{"a":"b"}}}]`, ""},
			"", false,
		},
		{
			"so are other taints instead",
			side{infra: labelled},
			side{infra: tainted},
			[3]string{"", `[{"op":"add","path":"` + at +
				`nodeTemplate","value":{"taints":[{"effect":"NoSchedule","key":"k"}]}}]`, ""},
			"", false,
		},
		{
			"and nothing any more",
			side{infra: labelled},
			side{infra: plain},
			[3]string{"", `[{"op":"remove","path":"` + at + `nodeTemplate"}]`, ""},
			"", false,
		},
		{
			"a copy of a template asks for nothing",
			side{infra: plain, config: data1},
			side{infra: plain, config: data1},
			[3]string{},
			"", false,
		},
		{
			"a template that could never reach the Node would be stuck there",
			side{infra: plain},
			side{infra: mistaken},
			[3]string{},
			"spec.nodeTemplate.labels", false,
		},
		{
			"a field of a later version is not ours to promise",
			side{infra: plain},
			side{infra: unknown},
			[3]string{},
			"spec.later", false,
		},
		{"another class is another VM", side{infra: plain}, side{infra: ofClass2}, [3]string{}, "no annotation", false},
		{
			"unless the agent makes all the difference",
			side{infra: plain},
			side{infra: ofClass2, agent: "providerSpec.image"},
			[3]string{"", `[{"op":"add","path":"` + at + `machineClassRef","value":{"name":"c2"}}]`, ""},
			"", false,
		},
		{
			"and not only a part of it",
			side{infra: plain},
			side{infra: ofClass3, agent: "providerSpec.image"},
			[3]string{},
			"providerSpec.disk.size", false,
		},
		{
			"which can be a nested field",
			side{infra: plain},
			side{infra: ofClass3, agent: "providerSpec.image, providerSpec.disk.size"},
			[3]string{"", `[{"op":"add","path":"` + at + `machineClassRef","value":{"name":"c3"}}]`, ""},
			"", false,
		},
		{"credentials stay", side{infra: plain}, side{
			infra: `{"machineClassRef":{"name":"other-credentials"}}`,
			agent: "version,bootstrap",
		}, [3]string{}, "credentialsSecretRef", false},
		{
			"a class with another Secret boots from other data",
			side{infra: plain},
			side{infra: `{"machineClassRef":{"name":"other-data"}}`, agent: "version"},
			[3]string{},
			"secretRef", false,
		},
		{
			"that the agent can take over",
			side{infra: plain},
			side{
				infra: `{"machineClassRef":{"name":"other-data"}}`,
				agent: "bootstrap",
			},
			[3]string{"", `[{"op":"add","path":"` + at + `machineClassRef","value":{"name":"other-data"}}]`, ""},
			"", false,
		},
		{
			"a class that is not there cannot be compared",
			side{infra: plain},
			side{infra: ofNoClass, agent: "version"},
			[3]string{},
			"does not exist", false,
		},
		{
			"a misspelt word replaces nothing",
			side{infra: plain},
			side{infra: ofClass2, agent: "providerSpec.image,verson"},
			[3]string{},
			`"verson" is unknown`, true,
		},
		{
			"and is of no account where no agent is needed",
			side{infra: plain},
			side{infra: labelled, agent: "verson"},
			[3]string{"", `[{"op":"add","path":"` + at + `nodeTemplate","value":{"labels":{"a":"b"}}}]`, ""},
			"", false,
		},
		{
			"another version needs an agent",
			side{infra: plain, spec: version("v1.1.0")},
			side{infra: plain, spec: version("v1.2.0")},
			[3]string{},
			"spec.version", false,
		},
		{
			"that says so",
			side{infra: plain, spec: version("v1.1.0")},
			side{infra: plain, spec: version("v1.2.0"), agent: "version"},
			[3]string{`[{"op":"add","path":"` + at + `version","value":"v1.2.0"}]`, "", ""},
			"", false,
		},
		{
			"no agent moves a VM",
			side{infra: plain, spec: zone("a")},
			side{infra: plain, spec: zone("b"), agent: "version,bootstrap"},
			[3]string{},
			"spec.failureDomain", false,
		},
		{
			"boot data is used once",
			side{infra: plain, config: data1},
			side{infra: plain, config: data2},
			[3]string{},
			"does not list bootstrap", false,
		},
		{
			"unless the agent takes it over",
			side{infra: plain, config: data1},
			side{infra: plain, config: data2, agent: "bootstrap"},
			[3]string{"", "", `[{"op":"add","path":"` + at + `userDataSecretRef","value":{"name":"d2"}}]`},
			"", false,
		},
		{
			"that of others is theirs",
			side{
				infra: plain, config: data1,
				configKind: "bootstrap.cluster.x-k8s.io/v1beta2 KubeadmConfigTemplate",
			},
			side{
				infra: plain, config: data2, configKind: "bootstrap.cluster.x-k8s.io/v1beta2 KubeadmConfigTemplate",
				agent: "bootstrap",
			},
			[3]string{},
			"not an MCMConfig", false,
		},
		{
			"one difference too many refuses all",
			side{infra: plain, config: data1},
			side{infra: labelled, config: data2},
			[3]string{},
			"does not list bootstrap", false,
		},
		{
			"machines of others are theirs",
			side{
				infra:     plain,
				infraKind: "infrastructure.cluster.x-k8s.io/v1beta2 DevMachineTemplate",
			},
			side{infra: labelled, infraKind: "infrastructure.cluster.x-k8s.io/v1beta2 DevMachineTemplate"},
			[3]string{},
			"DevMachineTemplate", false,
		},
		{
			"core does not compare the Secret, so silence would be agreement",
			side{infra: plain, spec: data("d1")},
			side{infra: plain, spec: data("d2"), agent: "bootstrap"},
			[3]string{`[{"op":"add","path":"` + at +
				`failureDomain","value":"not to be updated in place: spec.bootstrap.dataSecretName changes from \"d1\" to ` +
				`\"d2\""}]`, "", ""},
			"dataSecretName", false,
		},
		{
			"nor metadata of what is made from a template",
			side{infra: plain},
			side{infra: plain, within: `{"annotations":{"x":"y"}}`},
			[3]string{`[{"op":"add","path":"` + at +
				`failureDomain","value":"not to be updated in place: the MCMMachineTemplate's ` +
				`spec.template.metadata.annotations differs, which Machines that exist do not follow"}]`, "", ""},
			"metadata", false,
		},
	}
	e := extension(t, classes(), interceptor.Funcs{})
	for _, c := range cases {
		var resp runtimehooksv1.CanUpdateMachineSetResponse
		e.CanUpdateMachineSet(t.Context(), &runtimehooksv1.CanUpdateMachineSetRequest{
			Current: c.was.objects(),
			Desired: c.is.objects(),
		}, &resp)
		got := [3]string{
			string(resp.MachineSetPatch.Patch), string(resp.InfrastructureMachineTemplatePatch.Patch),
			string(resp.BootstrapConfigTemplatePatch.Patch),
		}
		if got != c.patches {
			t.Errorf("%s: patches %q, want %q", c.reason, got, c.patches)
		}
		if failure := resp.Status == runtimehooksv1.ResponseStatusFailure; failure != c.problems ||
			!strings.Contains(resp.Message, c.message) || (resp.Message == "") != (c.message == "") {
			t.Errorf("%s: %s %q, want %q", c.reason, resp.Status, resp.Message, c.message)
		}
	}
}

// TestCanUpdateMachine: what stands in for a Machine of a control plane is not a template.
func TestCanUpdateMachine(t *testing.T) {
	t.Parallel()
	infra := func(spec string) runtime.RawExtension {
		return runtime.RawExtension{Raw: []byte(
			`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1alpha1","kind":"MCMMachine","metadata":{"name":"m",` +
				`"labels":{"any":"thing"}},"spec":` + spec + `}`)}
	}
	var req runtimehooksv1.CanUpdateMachineRequest
	req.Current.InfrastructureMachine, req.Desired.InfrastructureMachine = infra(plain), infra(labelled)
	var resp runtimehooksv1.CanUpdateMachineResponse
	extension(t, nil, interceptor.Funcs{}).CanUpdateMachine(t.Context(), &req, &resp)
	if want := `[{"op":"add","path":"/spec/nodeTemplate","value":{"labels":{"a":"b"}}}]`; string(
		resp.InfrastructureMachinePatch.Patch) != want {
		t.Errorf("patch %s, want %s; %s", resp.InfrastructureMachinePatch.Patch, want, resp.Message)
	}
}

// TestNothingIsReplacedForAnError: no answer is not the answer no.
func TestNothingIsReplacedForAnError(t *testing.T) {
	t.Parallel()
	e := extension(t, classes(), interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey,
		client.Object, ...client.GetOption,
	) error {
		return errors.New("the API server is away")
	}})
	var resp runtimehooksv1.CanUpdateMachineSetResponse
	is := side{infra: ofClass2, agent: "providerSpec.image"}
	e.CanUpdateMachineSet(t.Context(), &runtimehooksv1.CanUpdateMachineSetRequest{
		Current: side{infra: plain}.objects(),
		Desired: is.objects(),
	}, &resp)
	if resp.Status != runtimehooksv1.ResponseStatusFailure || !strings.Contains(resp.Message, "away") {
		t.Errorf("%s %q, want a failure: without an error and without patches core replaces the Machines", resp.Status,
			resp.Message)
	}
}

// TestAnswersSurviveJSON: patches are bytes, and the response goes over the wire.
func TestAnswersSurviveJSON(t *testing.T) {
	t.Parallel()
	p, err := jsonPatch([]string{"spec"}, map[string]any{}, map[string]any{"a": map[string]any{}, "b": ""}, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	if want := `[{"op":"add","path":"/spec/a","value":{}},{"op":"add","path":"/spec/b","value":""}]`; string(
		p.Patch) != want {
		t.Errorf("%s, want %s: an empty value is a value", p.Patch, want)
	}
	if _, err := json.Marshal(runtimehooksv1.CanUpdateMachineSetResponse{MachineSetPatch: p}); err != nil {
		t.Error(err)
	}
}
