package capi

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// newConfig has a Machine without boot data, and its MCMConfig.
func newConfig(t *testing.T) *env {
	t.Helper()
	m := theMachine()
	m.Spec.Bootstrap.DataSecretName = nil
	return newEnv(t, m, theConfig(), theUserData())
}

// dataSecret is what the config has made.
func dataSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}}
}

func TestBootstrapConfigDataSecret(t *testing.T) {
	t.Parallel()
	w := newConfig(t)
	w.run(configController, "m")
	s := read(w, dataSecret())
	if name := read(w, theConfig()).Status.DataSecretName; name != s.Name {
		t.Errorf("status.dataSecretName is %q", name)
	}
	owner := metav1.OwnerReference{
		APIVersion: bootstrapv1.GroupVersion.String(), Kind: "MCMConfig", Name: "m", UID: "config-m", Controller: new(true),
		BlockOwnerDeletion: new(true),
	}
	got := []any{s.Type, s.Labels[clusterv1.ClusterNameLabel], s.OwnerReferences}
	if diff := cmp.Diff([]any{clusterv1.ClusterSecretType, "c1", []metav1.OwnerReference{owner}}, got); diff != "" {
		t.Errorf("type, label and owner (-want +got):\n%s", diff)
	}
	for entry := range s.Data {
		if entry != "value" && entry != "format" {
			t.Errorf("the Secret has an entry %q", entry)
		}
	}
	if !strings.Contains(string(s.Data["value"]), "hostname: m\n") || string(s.Data["format"]) != "cloud-config" {
		t.Errorf("format %q, value:\n%s", s.Data["format"], s.Data["value"])
	}
	if text := w.yaml(read(w, theConfig())) + w.told(); strings.Contains(text, "token:") {
		t.Errorf("boot data is in the object or its Events:\n%s", text)
	}
}

// The status is lost in a move; the name follows from the object itself.
func TestBootstrapConfigDataSecretNameIsRebuilt(t *testing.T) {
	t.Parallel()
	w := newConfig(t)
	w.run(configController, "m")
	before := string(read(w, dataSecret()).Data["value"])
	change(w, theConfig(), func(c *bootstrapv1.MCMConfig) { c.Status = bootstrapv1.MCMConfigStatus{} })
	change(w, dataSecret(), func(s *corev1.Secret) { s.OwnerReferences = nil })
	w.restart()
	w.run(configController, "m")
	status := read(w, theConfig()).Status
	if status.DataSecretName != "m" || status.Initialization.DataSecretCreated == nil ||
		len(read(w, dataSecret()).OwnerReferences) != 1 {
		t.Errorf("status %+v, owners %v", status, read(w, dataSecret()).OwnerReferences)
	}
	if got := string(read(w, dataSecret()).Data["value"]); got != before {
		t.Error("the boot data was recreated")
	}
}

func TestBootstrapConfigInitializationCompleted(t *testing.T) {
	t.Parallel()
	w := newConfig(t)
	change(w, theCluster(), func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = nil })
	w.run(configController, "m")
	if status := read(w, theConfig()).Status; status.Initialization.DataSecretCreated != nil || exists(w, dataSecret()) {
		t.Error("data was made before the infrastructure is provisioned")
	}
	change(w, theCluster(), func(c *clusterv1.Cluster) {
		c.Status.Initialization.InfrastructureProvisioned, c.Status.Conditions = new(true), nil
	})
	w.run(configController, "m")
	if exists(w, dataSecret()) {
		t.Error("data was made for a worker before there is a control plane to join")
	}
	change(w, theCluster(), func(c *clusterv1.Cluster) { c.Status = theCluster().Status })
	w.run(configController, "m")
	if created := read(w, theConfig()).Status.Initialization.DataSecretCreated; created == nil || !*created {
		t.Error("status.initialization.dataSecretCreated is not true")
	}
}

func TestBootstrapConfigConditions(t *testing.T) {
	t.Parallel()
	w := newConfig(t)
	w.run(configController, "m")
	if got := w.condition(theConfig(), clusterv1.ReadyCondition); !strings.HasPrefix(got, "True ") {
		t.Errorf("Ready is %q; core mirrors it into the Machine's BootstrapConfigReady", got)
	}
	checkConditions(t, read(w, theConfig()).Status.Conditions)
	w.writes = nil
	w.run(configController, "m")
	w.unchanged("an unchanged object is not written")
}

func TestBootstrapConfigTerminalFailures(t *testing.T) {
	t.Parallel()
	w := newConfig(t)
	w.delete(theUserData())
	w.run(configController, "m")
	if got := w.condition(theConfig(), clusterv1.ReadyCondition); got != "False "+machinev1.ReasonSecretNotFound {
		t.Errorf("Ready is %q", got)
	}
	if told := w.told(); !strings.Contains(told, "spec.userDataSecretRef.name") {
		t.Errorf("the Event names the field: %s", told)
	}
	w.create(theUserData())
	w.run(configController, "m")
	if !exists(w, dataSecret()) {
		t.Error("what is put right goes on")
	}
}

// Neither a changed spec nor changed user data reach machines that exist.
func TestBootstrapConfigSupportForInPlaceChanges(t *testing.T) {
	t.Parallel()
	w := newConfig(t)
	w.run(configController, "m")
	before := string(read(w, dataSecret()).Data["value"])
	change(w, theUserData(), func(s *corev1.Secret) {
		s.Data[machinev1.UserDataKey] = []byte("#cloud-config\nother: true\n")
	})
	change(w, theConfig(), func(c *bootstrapv1.MCMConfig) { c.Spec.UserDataSecretRef.Name = "another" })
	w.run(configController, "m")
	if got := string(read(w, dataSecret()).Data["value"]); got != before {
		t.Errorf("the boot data was recreated:\n%s", got)
	}
}

// A token lives until the node has joined, however late the VM comes, and then goes.
func TestBootstrapConfigTokenLivesUntilTheNodeJoins(t *testing.T) {
	t.Parallel()
	w := newConfig(t)
	began := w.clock.Now()
	wait := w.run(configController, "m")
	before := string(read(w, dataSecret()).Data["value"])
	tokens := w.tokens()
	if len(tokens) != 1 || !strings.Contains(before, string(tokens[0].Data["token-secret"])) {
		t.Fatalf("%d bootstrap tokens in the workload cluster", len(tokens))
	}
	for range 20 {
		w.pass(max(wait, time.Minute))
		wait = w.run(configController, "m")
		expires, err := time.Parse(time.RFC3339, string(w.tokens()[0].Data["expiration"]))
		if err != nil || !expires.After(w.clock.Now().Add(wait)) {
			t.Fatalf("after %s the token expires at %s (%v), and the next look is in %s", w.clock.Now().Sub(began), expires, err,
				wait)
		}
	}
	if got := string(read(w, dataSecret()).Data["value"]); got != before {
		t.Error("the boot data was recreated")
	}
	change(w, theMachine(), func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "m" })
	w.run(configController, "m")
	if got := w.tokens(); len(got) != 0 {
		t.Errorf("%d tokens are left", len(got))
	}
}

func (w *env) tokens() []corev1.Secret {
	w.Helper()
	var list corev1.SecretList
	if err := w.workload.List(w.Context(), &list); err != nil {
		w.Fatal(err)
	}
	return list.Items
}

func TestBootstrapConfigPausing(t *testing.T) {
	t.Parallel()
	for name, pause := range pauses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newConfig(t)
			pause(w, theConfig())
			w.run(configController, "m")
			o := read(w, theConfig())
			if exists(w, dataSecret()) || len(o.Status.Conditions) != 1 ||
				!strings.HasPrefix(w.condition(o, clusterv1.PausedCondition), "True") {
				t.Errorf("a paused config is told that it is paused, and nothing else: %+v", o.Status)
			}
		})
	}
}

func TestBootstrapConfigWatchFilter(t *testing.T) {
	t.Parallel()
	w := newConfig(t)
	w.filter = "mine"
	w.restart()
	w.run(configController, "m")
	w.unchanged("an object of another instance is not touched")
}

// Nothing refuses a change of a template, so it is a condition.
func TestBootstrapConfigTemplateEditedInPlaceIsShown(t *testing.T) {
	t.Parallel()
	template := &bootstrapv1.MCMConfigTemplate{ObjectMeta: objectMeta("t", "template-uid")}
	template.Spec.Template.Spec.MachineClassRef = &bootstrapv1.NameReference{Name: "small"}
	w := newEnv(t, template.DeepCopy())
	pass := func() {
		if _, err := w.reconcilers[configController][1].Reconcile(t.Context(),
			reconcile.Request{NamespacedName: key("t")}); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	if got := w.condition(template, bootstrapv1.SpecUnchangedCondition); got != "True "+bootstrapv1.ReasonUnchanged {
		t.Errorf("SpecUnchanged is %q", got)
	}
	change(w, template.DeepCopy(), func(o *bootstrapv1.MCMConfigTemplate) {
		o.Spec.Template.Spec.Format = bootstrapv1.FormatIgnition
	})
	pass()
	if got := w.condition(template, bootstrapv1.SpecUnchangedCondition); got != "False "+bootstrapv1.ReasonEditedInPlace {
		t.Errorf("SpecUnchanged is %q", got)
	}
	if told := w.told(); !strings.Contains(told, "name a new MCMConfigTemplate") {
		t.Errorf("the Event says what to do: %s", told)
	}
}
