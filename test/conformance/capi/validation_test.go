package capi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// validation is a rule of a CRD: a spec that it accepts, and one that it refuses, either in a
// new object or, of a rule that compares, as a change of the accepted one.
type validation struct {
	kind, accepted, refused string
	status                  string // that the accepted object gets before the change
	change                  bool
	field, message          string // of the refusal
}

const (
	namesClass = "lower case letters, digits, '-' and '.', with a letter or digit at both ends"
	labelKey   = "[prefix/]name, with a DNS name as prefix and a name of 1 to 63 letters, digits, '-', '_' and '.', " +
		"with a letter or digit at both ends"
	labelValue = "up to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends, or nothing"
	endpoint   = `{controlPlaneEndpoint: {host: api.example.com, port: 6443}}`
	provided   = `{machineClassRef: {name: a}, providerID: "sim:///z/1"}`
	pools      = `addressesFromPools: [{apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool, name: a}]`
	pooled     = "{" + pools + ", nameservers: [192.0.2.53]}"
	given      = `{kubeconfigSecretRef: {name: a}, controlPlaneEndpoint: {host: "2001:db8::1", port: 6443}}`
)

// networked is the spec of an MCMMachine with these network interfaces.
func networked(devices string) string {
	return "{machineClassRef: {name: a}, network: {devices: [" + devices + "]}}"
}

// validations are all rules of the root kinds. docs/kubectl-mcm.md lists them, too.
var validations = map[string]validation{
	"MCMClusterEndpoint": {
		kind: "MCMCluster", accepted: endpoint, refused: `{controlPlaneEndpoint: {host: api.example.com}}`,
		field: "spec.controlPlaneEndpoint", message: "set both host and port, or remove controlPlaneEndpoint",
	},
	"MCMClusterEndpointHost": {
		kind: "MCMCluster", accepted: `{controlPlaneEndpoint: {host: 192.0.2.7, port: 6443}}`,
		refused: `{controlPlaneEndpoint: {host: "https://api.example.com", port: 6443}}`,
		field:   "spec.controlPlaneEndpoint.host",
		message: "set host to a DNS name or an IP address, without scheme, port or path",
	},
	"MCMClusterEndpointStays": {
		kind: "MCMCluster", accepted: endpoint, change: true,
		refused: `{controlPlaneEndpoint: {host: other.example.com, port: 6443}}`, field: "spec.controlPlaneEndpoint",
		message: "keep the endpoint: certificates and kubeconfigs of the Cluster have it; create a Cluster for another one",
	},
	"MCMClusterFailureDomains": {
		kind: "MCMCluster", accepted: `{failureDomains: [{name: a}]}`, refused: `{failureDomains: []}`,
		field: "spec.failureDomains", message: "name at least one failure domain, or remove failureDomains",
	},
	"MCMMachineClass": {
		kind: "MCMMachine", accepted: `{machineClassRef: {name: a.b-1}}`, refused: `{machineClassRef: {name: A_b}}`,
		field: "spec.machineClassRef.name", message: "name a MachineClass: " + namesClass,
	},
	"MCMMachineFallbackNotFirst": {
		kind: "MCMMachine", accepted: `{machineClassRef: {name: a}, fallbackClassRefs: [{name: b}, {name: c}]}`,
		refused: `{machineClassRef: {name: a}, fallbackClassRefs: [{name: b}, {name: a}]}`,
		field:   "spec.fallbackClassRefs",
		message: "fallbackClassRefs must not have the class of machineClassRef, which comes first anyway; remove it",
	},
	"MCMMachineFallbackOnce": {
		kind: "MCMMachine", accepted: `{machineClassRef: {name: a}, fallbackClassRefs: [{name: b}, {name: c}]}`,
		refused: `{machineClassRef: {name: a}, fallbackClassRefs: [{name: b}, {name: b}]}`,
		field:   "spec.fallbackClassRefs", message: "remove one of the fallbackClassRefs that have the same name",
	},
	"MCMMachineFallbackClass": {
		kind: "MCMMachine", accepted: `{machineClassRef: {name: a}, fallbackClassRefs: [{name: b.c-1}]}`,
		refused: `{machineClassRef: {name: a}, fallbackClassRefs: [{name: B_c}]}`,
		field:   "spec.fallbackClassRefs", message: "name MachineClasses: " + namesClass,
	},
	"MCMMachineLabelKeys": {
		kind:     "MCMMachine",
		accepted: `{machineClassRef: {name: a}, nodeTemplate: {labels: {example.com/a: b, c: ""}}}`,
		refused:  `{machineClassRef: {name: a}, nodeTemplate: {labels: {Example_com/a: b}}}`,
		field:    "spec.nodeTemplate.labels", message: "correct the key of a label: " + labelKey,
	},
	"MCMMachineLabelValues": {
		kind: "MCMMachine", accepted: `{machineClassRef: {name: a}, nodeTemplate: {labels: {a: B_1.c-d}}}`,
		refused: `{machineClassRef: {name: a}, nodeTemplate: {labels: {a: no spaces}}}`,
		field:   "spec.nodeTemplate.labels", message: "correct the value of a label: " + labelValue,
	},
	"MCMMachineTaintKeys": {
		kind:     "MCMMachine",
		accepted: `{machineClassRef: {name: a}, nodeTemplate: {taints: [{key: x.io/a, effect: NoSchedule}]}}`,
		refused:  `{machineClassRef: {name: a}, nodeTemplate: {taints: [{key: x/y/z, effect: NoSchedule}]}}`,
		field:    "spec.nodeTemplate.taints", message: "correct the key of a taint: " + labelKey,
	},
	"MCMMachineTaintValues": {
		kind:     "MCMMachine",
		accepted: `{machineClassRef: {name: a}, nodeTemplate: {taints: [{key: a, value: b, effect: NoSchedule}]}}`,
		refused:  `{machineClassRef: {name: a}, nodeTemplate: {taints: [{key: a, value: b=c, effect: NoSchedule}]}}`,
		field:    "spec.nodeTemplate.taints", message: "correct the value of a taint: " + labelValue,
	},
	"MCMMachineTaintEffects": {
		kind:     "MCMMachine",
		accepted: `{machineClassRef: {name: a}, nodeTemplate: {taints: [{key: a, effect: PreferNoSchedule}]}}`,
		refused:  `{machineClassRef: {name: a}, nodeTemplate: {taints: [{key: a, effect: Evict}]}}`,
		field:    "spec.nodeTemplate.taints",
		message:  "set the effect of a taint to NoSchedule, PreferNoSchedule or NoExecute",
	},
	"MCMMachineTaintsOnce": {
		kind: "MCMMachine", accepted: `{machineClassRef: {name: a}, nodeTemplate: {taints: ` +
			`[{key: a, effect: NoExecute}, {key: a, effect: NoSchedule}]}}`,
		refused: `{machineClassRef: {name: a}, nodeTemplate: {taints: ` +
			`[{key: a, value: b, effect: NoExecute}, {key: a, value: c, effect: NoExecute}]}}`,
		field: "spec.nodeTemplate.taints", message: "remove one of the taints that have the same key and effect",
	},
	"MCMMachineProviderIDStays": {
		kind: "MCMMachine", accepted: provided, status: `{initialization: {provisioned: true}}`, change: true,
		refused: `{machineClassRef: {name: a}, providerID: "sim:///z/2"}`, field: "spec.providerID",
		message: "keep the providerID: the VM exists, and another ID would leave it behind; delete the Machine to replace " +
			"the VM",
	},
	"MCMMachineNetworkStays": {
		kind: "MCMMachine", accepted: networked(pooled), change: true, refused: `{machineClassRef: {name: a}}`, field: "spec",
		message: "spec.network cannot be changed, because the VM keeps the addresses that it was created with; create an " +
			"MCMMachineTemplate with the new network, and name it in the MachineDeployment",
	},
	"MCMMachineNetworkPools": {
		kind: "MCMMachine", accepted: networked(pooled + ", {}"), refused: networked("{}"), field: "spec.network.devices",
		message: "no device has addressesFromPools; name a pool, or remove spec.network",
	},
	"MCMMachineNetworkDNS": {
		kind: "MCMMachine", accepted: networked(pooled), refused: networked(pooled + ", {searchDomains: [a]}"),
		field:   "spec.network.devices[1]",
		message: "nameservers and searchDomains have no effect without addressesFromPools; name a pool, or remove them",
	},
	"MCMMachineNetworkNameservers": {
		kind: "MCMMachine", accepted: networked(pooled),
		refused: networked("{" + pools + ", nameservers: [dns.example.com]}"),
		field:   "spec.network.devices[0].nameservers[0]", message: "a nameserver has to be an IP address",
	},
	"MCMMachineTemplateProviderID": {
		kind: "MCMMachineTemplate", accepted: `{template: {spec: {machineClassRef: {name: a}}}}`,
		refused: `{template: {spec: ` + provided + `}}`, field: "spec.template",
		message: "spec.providerID names one VM, and a template is for many; remove it, and set it in the one MCMMachine " +
			"that adopts that VM",
	},
	"MCMConfigSource": {
		kind: "MCMConfig", accepted: `{userDataSecretRef: {name: a}}`, refused: `{format: ignition}`, field: "spec",
		message: "set exactly one of machineClassRef and userDataSecretRef",
	},
	"MCMConfigClass": {
		kind: "MCMConfig", accepted: `{machineClassRef: {name: a}}`, refused: `{machineClassRef: {name: a/b}}`,
		field: "spec.machineClassRef.name", message: "name a MachineClass: " + namesClass,
	},
	"MCMConfigSecret": {
		kind: "MCMConfig", accepted: `{userDataSecretRef: {name: a}}`, refused: `{userDataSecretRef: {name: -a}}`,
		field: "spec.userDataSecretRef.name", message: "name a Secret: " + namesClass,
	},
	"MCMExternalControlPlaneSource": {
		kind: "MCMExternalControlPlane", accepted: `{selfHosted: true}`,
		refused: `{selfHosted: true, kubeconfigSecretRef: {name: a}}`, field: "spec",
		message: "set exactly one of kubeconfigSecretRef and selfHosted: true",
	},
	"MCMExternalControlPlaneSecret": {
		kind: "MCMExternalControlPlane", accepted: `{kubeconfigSecretRef: {name: a}, selfHosted: false}`,
		refused: `{kubeconfigSecretRef: {name: a.}}`, field: "spec.kubeconfigSecretRef.name",
		message: "name a Secret: " + namesClass,
	},
	"MCMExternalControlPlaneEndpoint": {
		kind: "MCMExternalControlPlane", accepted: given,
		refused: `{selfHosted: true, controlPlaneEndpoint: {port: 6443}}`, field: "spec.controlPlaneEndpoint",
		message: "set both host and port, or remove controlPlaneEndpoint",
	},
	"MCMExternalControlPlaneEndpointHost": {
		kind: "MCMExternalControlPlane", accepted: given,
		refused: `{selfHosted: true, controlPlaneEndpoint: {host: "api:6443/path", port: 6443}}`,
		field:   "spec.controlPlaneEndpoint.host",
		message: "set host to a DNS name or an IP address, without scheme, port or path",
	},
}

// TestValidation has a real API server accept and refuse an object for each rule.
func TestValidation(t *testing.T) {
	t.Parallel()
	server := cluster.ForTest(t, cluster.Options{})
	c, err := client.New(server.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stored := storeWithoutRules(t, server, c)
	if err := server.ApplyDir(t.Context(), filepath.Join(root, "config", "crd")); err != nil {
		t.Fatal(err)
	}
	for name, v := range validations {
		t.Run(name, func(t *testing.T) { v.check(t, c, strings.ToLower(name)) })
	}
	for name, check := range map[string]func(*testing.T, client.Client){
		"StoredObjects": func(t *testing.T, c client.Client) { t.Helper(); checkStored(t, c, stored) },
		"Moves":         checkMoves, "Placeholders": checkPlaceholders, "WithoutASpec": checkWithoutASpec,
	} {
		t.Run(name, func(t *testing.T) { check(t, c) })
	}
}

func (v validation) check(t *testing.T, c client.Client, name string) {
	t.Helper()
	o := build(t, v.kind, name, v.accepted)
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatalf("an object that the rule accepts: %v", err)
	}
	refused := build(t, v.kind, name+"-refused", v.refused)
	if v.status != "" {
		o.Object["status"] = fields(t, v.status)
		if err := c.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if v.change {
		o.Object["spec"] = refused.Object["spec"]
		err = c.Update(t.Context(), o)
	} else {
		err = c.Create(t.Context(), refused)
	}
	if !apierrors.IsInvalid(err) {
		t.Fatalf("an object that the rule refuses: %v", err)
	}
	causes := err.(apierrors.APIStatus).Status().Details.Causes
	if len(causes) != 1 || causes[0].Field != v.field || !strings.HasSuffix(causes[0].Message, ": "+v.message) {
		t.Errorf("refused for %+v, want %s: %s", causes, v.field, v.message)
	}
}

// checkMoves: clusterctl move recreates the object, with its spec and without its status; then
// the controller writes the status. Until then, a lost or wrong id can be corrected.
func checkMoves(t *testing.T, c client.Client) {
	t.Helper()
	o := build(t, "MCMMachine", "moved", provided)
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	provision := func() error {
		o.Object["status"] = fields(t, `{initialization: {provisioned: true}}`)
		return c.Status().Update(t.Context(), o)
	}
	set := func(spec string) error {
		o.Object["spec"] = fields(t, spec)
		return c.Update(t.Context(), o)
	}
	for _, err := range []error{
		set(`{machineClassRef: {name: b}, providerID: "sim:///z/2"}`), set(`{machineClassRef: {name: b}}`), provision(),
		set(`{machineClassRef: {name: b}, providerID: "sim:///z/3"}`),
		set(`{machineClassRef: {name: c}, providerID: "sim:///z/3"}`),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if err := set(`{machineClassRef: {name: c}}`); !apierrors.IsInvalid(err) {
		t.Errorf("the id of a VM that exists is removed: %v", err)
	}
}

// checkPlaceholders: the templates of a ClusterClass have what its patches replace.
func checkPlaceholders(t *testing.T, c client.Client) {
	t.Helper()
	for kind, spec := range map[string]string{
		"MCMClusterTemplate":              `{controlPlaneEndpoint: {host: REPLACED}, failureDomains: []}`,
		"MCMMachineTemplate":              `{machineClassRef: {name: <replaced>}, nodeTemplate: {labels: {<key>: <value>}}}`,
		"MCMConfigTemplate":               `{}`,
		"MCMExternalControlPlaneTemplate": `{}`,
	} {
		if err := c.Create(t.Context(), build(t, kind, "placeholders", "{template: {spec: "+spec+"}}")); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// checkWithoutASpec: a rule of the spec holds where there is none.
func checkWithoutASpec(t *testing.T, c client.Client) {
	t.Helper()
	for _, kind := range []string{"MCMConfig", "MCMExternalControlPlane"} {
		o := build(t, kind, "without-spec", "{}")
		delete(o.Object, "spec")
		err := c.Create(t.Context(), o)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "set exactly one of") {
			t.Errorf("%s without a spec: %v", kind, err)
		}
	}
}

// storeWithoutRules stores an object that the rules refuse, as one of an earlier version.
func storeWithoutRules(t *testing.T, server *cluster.Cluster, c client.Client) *unstructured.Unstructured {
	t.Helper()
	earlier := crd(t, "MCMConfig")
	spec := earlier.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.XValidations = nil
	earlier.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(earlier)
	if err != nil {
		t.Fatal(err)
	}
	delete(object, "status")
	if err := server.Apply(t.Context(), &unstructured.Unstructured{Object: object}); err != nil {
		t.Fatal(err)
	}
	o := build(t, "MCMConfig", "stored", `{format: ignition}`)
	o.SetFinalizers([]string{"example.com/a"})
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o
}

// checkStored: what was stored before there were rules gets its status, and loses its finalizers.
func checkStored(t *testing.T, c client.Client, o *unstructured.Unstructured) {
	t.Helper()
	refuses := func(ctx context.Context) (bool, error) {
		another := build(t, "MCMConfig", "another", `{format: ignition}`)
		return apierrors.IsInvalid(c.Create(ctx, another, client.DryRunAll)), nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, refuses); err != nil {
		t.Fatalf("the rules are not in force: %v", err)
	}
	o.Object["status"] = fields(t, `{initialization: {dataSecretCreated: true}}`)
	if err := c.Status().Update(t.Context(), o); err != nil {
		t.Error(err)
	}
	o.SetFinalizers(nil)
	if err := c.Update(t.Context(), o); err != nil {
		t.Error(err)
	}
}

// TestValidationIsComplete: each rule of a CRD has a test and a row in the documentation.
func TestValidationIsComplete(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "kubectl-mcm.md"))
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]int{}
	for name, v := range validations {
		tested[v.kind+": "+v.message]++
		row := fmt.Sprintf("| `%s` | `%s` | %s | `TestValidation/%s` |", v.kind, v.field, v.message, name)
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/kubectl-mcm.md has no row\n%s", row)
		}
	}
	eachCRD(t, func(t *testing.T, kind string, c *apiextensionsv1.CustomResourceDefinition) {
		t.Helper()
		for _, r := range rulesOf(c.Spec.Versions[0].Schema.OpenAPIV3Schema) {
			ofRoot := tested[strings.TrimSuffix(kind, "Template")+": "+r.Message] // both have the type that the rule is at
			if n := tested[kind+": "+r.Message]; n != 1 && ofRoot != 1 {
				t.Errorf("%d tests for the rule %q", n, r.Message)
			}
		}
	})
}

func build(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": fields(t, spec)}}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: kinds()[kind], Version: "v1alpha1", Kind: kind})
	o.SetNamespace("default")
	o.SetName(name)
	return o
}

func fields(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
