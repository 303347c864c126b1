package capi

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// newControlPlane has a control plane that somebody else runs, and the way to it.
func newControlPlane(t *testing.T, edit ...func(*controlplanev1.MCMExternalControlPlane)) *env {
	t.Helper()
	o := theControlPlane()
	for _, f := range edit {
		f(o)
	}
	return newEnv(t, o, theKubeconfig("{token: s3cret}"),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "this-cluster"}})
}

func selfHosted(o *controlplanev1.MCMExternalControlPlane) {
	o.Spec.KubeconfigSecretRef, o.Spec.SelfHosted = nil, new(true)
}

func kubeconfigSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1-kubeconfig"}}
}

// The endpoint is filled in from the kubeconfig, and never overwritten.
func TestControlPlaneEndpoint(t *testing.T) {
	t.Parallel()
	w := newControlPlane(t)
	w.run(controlPlaneController, "c1")
	if got := read(w, theControlPlane()).Spec.ControlPlaneEndpoint; got != (clusterv1.APIEndpoint{
		Host: "api.example.com",
		Port: 6443,
	}) {
		t.Errorf("spec.controlPlaneEndpoint is %v", got)
	}
	own := clusterv1.APIEndpoint{Host: "other.example.com", Port: 443}
	w = newControlPlane(t, func(o *controlplanev1.MCMExternalControlPlane) { o.Spec.ControlPlaneEndpoint = own })
	w.run(controlPlaneController, "c1")
	if got := read(w, theControlPlane()).Spec.ControlPlaneEndpoint; got != own {
		t.Errorf("the user's endpoint has become %v", got)
	}
}

// Without it, core neither drains Nodes nor deletes them where there are no
// control plane Machines.
func TestControlPlaneExternalManagedControlPlane(t *testing.T) {
	t.Parallel()
	w := newControlPlane(t)
	w.run(controlPlaneController, "c1")
	if e := read(w, theControlPlane()).Status.ExternalManagedControlPlane; e == nil || !*e {
		t.Error("status.externalManagedControlPlane is not true")
	}
}

func TestControlPlaneInitializationCompleted(t *testing.T) {
	t.Parallel()
	w := newControlPlane(t)
	w.connected = false
	w.run(controlPlaneController, "c1")
	if i := read(w, theControlPlane()).Status.Initialization.ControlPlaneInitialized; i != nil {
		t.Error("initialized before the API server has answered")
	}
	w.connected = true
	w.run(controlPlaneController, "c1")
	w.connected = false
	w.pass(time.Hour)
	w.run(controlPlaneController, "c1")
	if i := read(w, theControlPlane()).Status.Initialization.ControlPlaneInitialized; i == nil || !*i {
		t.Error("status.initialization.controlPlaneInitialized is not true, or was taken back")
	}
}

// Core holds up workers while the status is behind the spec, or empty. What is in the status is what the API
// server reports, and never what the spec asks for.
func TestControlPlaneVersion(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]string{"None": "", "Reached": "v1.36.3", "Raised": "v1.37.0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newControlPlane(t, func(o *controlplanev1.MCMExternalControlPlane) { o.Spec.Version = asked })
			w.connected = false
			w.run(controlPlaneController, "c1")
			w.hasVersion("", "nothing is known")
			w.connected = true
			if wait := w.run(controlPlaneController, "c1"); wait <= 0 {
				t.Error("nobody asks again")
			}
			w.hasVersion("v1.36.3", "what the API server runs")
			w.connected = false
			w.pass(time.Hour)
			w.run(controlPlaneController, "c1")
			w.hasVersion("v1.36.3", "an outage is no upgrade")
			w.connected, w.server.Version = true, "v1.37.0"
			w.run(controlPlaneController, "c1")
			w.hasVersion("v1.37.0", "the API server was upgraded")
		})
	}
}

// hasVersion fails unless core reads that version from the control plane; before 1.14 it reads status.version.
func (w *env) hasVersion(want, why string) {
	w.Helper()
	status := read(w, theControlPlane()).Status
	listed := ""
	if len(status.Versions) == 1 {
		listed = status.Versions[0].Version
	}
	if listed != want || status.Version != want {
		w.Errorf("versions %v, version %q, want %q: %s", status.Versions, status.Version, want, why)
	}
}

func TestControlPlaneConditions(t *testing.T) {
	t.Parallel()
	w := newControlPlane(t)
	w.run(controlPlaneController, "c1")
	if got := w.condition(theControlPlane(), clusterv1.AvailableCondition); !strings.HasPrefix(got, "True ") {
		t.Errorf("Available is %q; core mirrors it into the Cluster's ControlPlaneAvailable", got)
	}
	checkConditions(t, read(w, theControlPlane()).Status.Conditions)
	w.writes = nil
	w.run(controlPlaneController, "c1")
	w.unchanged("an unchanged object is not written")
	w.connected = false
	w.pass(time.Hour)
	w.run(controlPlaneController, "c1")
	if got := w.condition(theControlPlane(), clusterv1.AvailableCondition); !strings.HasPrefix(got, "False ") {
		t.Errorf("Available is %q although the API server does not answer", got)
	}
}

func TestControlPlaneTerminalFailures(t *testing.T) {
	t.Parallel()
	w := newControlPlane(t)
	w.delete(theKubeconfig(""))
	w.run(controlPlaneController, "c1")
	if got := w.condition(theControlPlane(), controlplanev1.KubeconfigReadyCondition); got != "False "+
		machinev1.ReasonSecretNotFound {
		t.Errorf("KubeconfigReady is %q", got)
	}
	w.create(theKubeconfig("{token: s3cret}"))
	w.run(controlPlaneController, "c1")
	if !exists(w, kubeconfigSecret()) {
		t.Error("what is put right goes on")
	}
}

func TestClusterKubeconfigManagement(t *testing.T) {
	t.Parallel()
	w := newControlPlane(t)
	w.run(controlPlaneController, "c1")
	s := read(w, kubeconfigSecret())
	owner := metav1.OwnerReference{
		APIVersion: controlplanev1.GroupVersion.String(), Kind: "MCMExternalControlPlane", Name: "c1",
		UID:        "control-plane-uid",
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
	got := []any{s.Type, s.Labels[clusterv1.ClusterNameLabel], s.OwnerReferences}
	if diff := cmp.Diff([]any{clusterv1.ClusterSecretType, "c1", []metav1.OwnerReference{owner}}, got); diff != "" {
		t.Errorf("type, label (core's cache has no Secrets without it) and owner (-want +got):\n%s", diff)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Data["value"])
	if err != nil || config.Host != "https://api.example.com:6443" || config.BearerToken != "s3cret" {
		t.Errorf("entry value leads to %v (%v)", config, err)
	}
	change(w, kubeconfigSecret(), func(s *corev1.Secret) { s.OwnerReferences = nil })
	w.run(controlPlaneController, "c1")
	if len(read(w, kubeconfigSecret()).OwnerReferences) != 1 {
		t.Error("the owner does not come back")
	}
	if text := w.yaml(read(w, theControlPlane())) + w.told(); strings.Contains(text, "s3cret") {
		t.Errorf("the token is in the object or its Events:\n%s", text)
	}
}

// Core refuses to connect with such a kubeconfig, without saying so to anyone.
func TestClusterKubeconfigRunsNoPrograms(t *testing.T) {
	t.Parallel()
	users := map[string]string{
		"exec":          "{exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}}",
		"auth-provider": "{auth-provider: {name: gcp}}",
	}
	for field, user := range users {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			w := newControlPlane(t)
			change(w, theKubeconfig(""), func(s *corev1.Secret) { s.Data = theKubeconfig(user).Data })
			w.run(controlPlaneController, "c1")
			if got := w.condition(theControlPlane(), controlplanev1.KubeconfigReadyCondition); got != "False "+
				controlplanev1.ReasonKubeconfigRefused {
				t.Errorf("KubeconfigReady is %q", got)
			}
			if told := w.told(); !strings.Contains(told, "users[admin].user."+field) || exists(w, kubeconfigSecret()) {
				t.Errorf("the Event names the field, and no Secret is made: %s", told)
			}
		})
	}
}

// Where the machines join the management cluster itself, the kubeconfig is made
// for a ServiceAccount, short-lived, and recreated before it expires.
func TestClusterKubeconfigIsRegenerated(t *testing.T) {
	t.Parallel()
	w := newControlPlane(t, selfHosted)
	wait := w.run(controlPlaneController, "c1")
	config, err := clientcmd.RESTConfigFromKubeConfig(read(w, kubeconfigSecret()).Data["value"])
	if err != nil || config.BearerToken == "" || config.Host != "https://management.example:6443" {
		t.Fatalf("entry value leads to %v (%v)", config, err)
	}
	if wait <= 0 {
		t.Fatal("nobody comes back for the token")
	}
	before := read(w, kubeconfigSecret()).Annotations[controlplanev1.RenewTokenAnnotation]
	renew, err := time.Parse(time.RFC3339, before)
	if err != nil || w.clock.Now().Add(wait).After(renew) {
		t.Fatalf("it comes back after %s, and the token is to be renewed at %s (%v)", wait, before, err)
	}
	w.clock.SetTime(renew)
	w.run(controlPlaneController, "c1")
	if after := read(w, kubeconfigSecret()).Annotations[controlplanev1.RenewTokenAnnotation]; after == before {
		t.Errorf("the token was not renewed at %s", before)
	}
}

func TestControlPlanePausing(t *testing.T) {
	t.Parallel()
	for name, pause := range pauses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newControlPlane(t)
			pause(w, theControlPlane())
			w.run(controlPlaneController, "c1")
			o := read(w, theControlPlane())
			if exists(w, kubeconfigSecret()) || len(o.Finalizers) != 0 || len(o.Status.Conditions) != 1 ||
				!strings.HasPrefix(w.condition(o, clusterv1.PausedCondition), "True") {
				t.Errorf("a paused control plane is told that it is paused, and nothing else: %+v", o)
			}
		})
	}
}

func TestControlPlaneKeepsItsFinalizer(t *testing.T) {
	t.Parallel()
	w := newControlPlane(t)
	w.run(controlPlaneController, "c1")
	change(w, theControlPlane(), func(o *controlplanev1.MCMExternalControlPlane) { o.Finalizers = nil })
	w.run(controlPlaneController, "c1")
	if !slices.Contains(read(w, theControlPlane()).Finalizers, machinev1.MCMExternalControlPlaneFinalizer) {
		t.Error("the finalizer does not come back")
	}
	w.delete(theControlPlane())
	w.run(controlPlaneController, "c1")
	if exists(w, theControlPlane()) {
		t.Error("nothing holds it")
	}
}

func TestControlPlaneWatchFilter(t *testing.T) {
	t.Parallel()
	w := newControlPlane(t)
	w.filter = "mine"
	w.restart()
	w.run(controlPlaneController, "c1")
	w.unchanged("an object of another instance is not touched")
}

// Core compares Machine.spec.version with what the kubelet says, as text; a
// difference keeps every rollout from ending, and nothing in core tells it.
func TestMachineVersionThatIsNotTheKubeletsIsTold(t *testing.T) {
	t.Parallel()
	w := newControlPlane(t)
	m := theMachine()
	m.Spec.Version, m.Status.NodeInfo = "v1.36.3", &corev1.NodeSystemInfo{KubeletVersion: "v1.36.3+k3s1"}
	w.create(m)
	w.run(controlPlaneController, "c1")
	if got := w.condition(theControlPlane(), controlplanev1.KubeletVersionsMatchCondition); !strings.HasPrefix(got,
		"False ") {
		t.Errorf("KubeletVersionsMatch is %q", got)
	}
	if told := w.told(); !strings.Contains(told, "v1.36.3+k3s1") || !strings.Contains(told, "spec.template.spec.version") {
		t.Errorf("the Event names field and value: %s", told)
	}
}
