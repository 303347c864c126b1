package mcmconfig_test

import (
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

func TestDataSecret(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(config())...)
	wait := w.reconcile().RequeueAfter

	got := w.data()
	if got == nil {
		t.Fatalf("no data Secret: %s", w.ready())
	}
	hasToken(t, w.value(), w.tokens())
	if !strings.Contains(w.value(), "hostname: vm-1\n") {
		t.Errorf("<<MACHINE_NAME>> is the name that the node registers with, that of the VM: %s", w.value())
	}
	want := &corev1.Secret{
		Type: clusterv1.ClusterSecretType,
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "bootstrap.cluster.x-k8s.io/v1alpha1", Kind: "MCMConfig", Name: "m1", UID: "config-uid",
				Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
	}
	if diff := cmp.Diff([]any{want.Type, want.Labels, want.OwnerReferences},
		[]any{got.Type, got.Labels, got.OwnerReferences}); diff != "" {
		t.Errorf("the Secret is as the contract wants it (-want +got):\n%s", diff)
	}
	if string(got.Data["format"]) != "cloud-config" {
		t.Errorf("format = %q", got.Data["format"])
	}
	status := w.config().Status
	if status.DataSecretName != "m1" || status.Initialization.DataSecretCreated == nil ||
		!*status.Initialization.DataSecretCreated || w.ready() != "True" {
		t.Errorf("status = %+v", status)
	}
	if wait != life/2 {
		t.Errorf("the token is looked at again after %s, not %s", life/2, wait)
	}
	for _, c := range status.Conditions {
		if c.ObservedGeneration != 1 || !c.LastTransitionTime.Time.Equal(start) {
			t.Errorf("condition %s lacks its generation, or has a time of its own: %+v", c.Type, c)
		}
	}
	if diff := cmp.Diff([]string{"patch *v1.Secret", "create *v1.Secret", "patch *v1alpha1.MCMConfig/status"},
		w.writes); diff != "" {
		t.Errorf("one config costs two writes, and the Secret of its user data is marked once (-want +got):\n%s", diff)
	}
	source := &corev1.Secret{}
	w.get(source, client.ObjectKey{Namespace: "default", Name: "boot"})
	if _, moves := source.Labels["clusterctl.cluster.x-k8s.io/move"]; !moves {
		t.Error("clusterctl moves the Secret of the user data along")
	}
	w.writes = nil
	if w.reconcile(); len(w.writes) > 0 {
		t.Errorf("an unchanged object is not written: %v", w.writes)
	}
}

func TestNoToken(t *testing.T) {
	t.Parallel()
	w := newEnv(t, cluster(), machine(), secret("boot", "#!/bin/sh\nhostname <<MACHINE_NAME>>\n"), config())
	w.clusters.Disconnect(clusterKey)
	if wait := w.reconcile().RequeueAfter; wait != 0 {
		t.Errorf("there is nothing to come back for: %s", wait)
	}
	if w.value() != "#!/bin/sh\nhostname vm-1\n" || w.calls != 0 {
		t.Errorf("boot data without a place for a token needs no workload cluster: %q, %d calls", w.value(), w.calls)
	}
}

func TestURLEncodedPlaceholders(t *testing.T) {
	t.Parallel()
	doc := `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"contents":{"source":"data:,` +
		`%3C%3CBOOTSTRAP_TOKEN%3E%3E%20%3C%3CMACHINE_NAME%3E%3E"}}]}}`
	w := newEnv(t, cluster(), machine(), secret("boot", doc), config())
	w.reconcile()
	hasToken(t, w.value(), w.tokens())
	if strings.Contains(w.value(), "%3C") || string(w.data().Data["format"]) != "ignition" {
		t.Errorf("an ignition document embeds files URL-encoded, and says itself what it is: %s, format %s", w.value(),
			w.data().Data["format"])
	}
}

func TestGates(t *testing.T) {
	t.Parallel()
	noGate := func(change func(*clusterv1.Cluster)) *clusterv1.Cluster { c := cluster(); change(c); return c }
	uninitialized := noGate(func(c *clusterv1.Cluster) {
		meta.RemoveStatusCondition(&c.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition)
	})
	cases := map[string]struct {
		reason  string
		objects []client.Object
		offline bool
		want    string // the reason of Ready; "True" if the data exists
	}{
		"NoMachine": {
			reason: "A template's copy may be there before its Machine.",
			objects: []client.Object{cluster(), config(func(c *bootstrapv1.MCMConfig) {
				c.OwnerReferences = nil
			})}, want: bootstrapv1.ReasonWaitingForMachine,
		},
		"NoCluster": {
			reason:  "A restore brings objects back in any order.",
			objects: []client.Object{machine(), config()}, want: bootstrapv1.ReasonWaitingForCluster,
		},
		"NoInfrastructure": {
			reason: "The data may depend on the infrastructure of the Cluster.",
			objects: []client.Object{noGate(func(c *clusterv1.Cluster) {
				c.Status.Initialization.InfrastructureProvisioned = nil
			}), machine(), config()},
			want: bootstrapv1.ReasonWaitingForInfra,
		},
		"NoControlPlane": {
			reason: "There is nothing to join yet.", objects: []client.Object{uninitialized, machine(), config()},
			want: bootstrapv1.ReasonWaitingForControlPlane,
		},
		"ControlPlaneMachine": {
			reason: "The control plane's own machines cannot wait for it.",
			objects: []client.Object{uninitialized, machine(func(m *clusterv1.Machine) {
				m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
			}), config(), secret("boot", "#cloud-config")}, want: "True",
		},
		"Offline": {
			reason:  "A token is made in the workload cluster, once that can be reached.",
			objects: objects(config()), offline: true, want: bootstrapv1.ReasonWaitingForConnection,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, copies(tc.objects)...)
			if tc.offline {
				w.clusters.Disconnect(clusterKey)
			}
			if wait := w.reconcile().RequeueAfter; wait != 0 {
				t.Errorf("what is waited for wakes the object by itself, no polling: %s", wait)
			}
			got, _, _ := strings.Cut(w.ready(), ":")
			if got != tc.want || (w.data() != nil) != (tc.want == "True") {
				t.Errorf("Ready = %q, want %q: %s", w.ready(), tc.want, tc.reason)
			}
			if e := w.event(); e != "" {
				t.Errorf("waiting is nobody's mistake: %s", e)
			}
		})
	}
}

// TestOfflineForItsKubeconfig: whoever writes the kubeconfig reads conditions, and no log.
func TestOfflineForItsKubeconfig(t *testing.T) {
	t.Parallel()
	refused := fixture.Secret("c1-kubeconfig", map[string]string{"value": "s3cret: ["})
	w := newEnv(t, cluster(), machine(), secret("boot", userData),
		machineClass(corev1.SecretReference{Name: "boot"}), config(fromClass), refused)
	w.clusters.Disconnect(clusterKey)
	w.reconcile()
	if got := w.ready(); !strings.Contains(got, bootstrapv1.ReasonWaitingForConnection) ||
		!strings.Contains(got, `Secret "c1-kubeconfig": is not a kubeconfig; `) || strings.Contains(got, "s3cret") {
		t.Errorf("Ready = %q, want why there is no connection", got)
	}
}

func TestLongDataIsPacked(t *testing.T) {
	t.Parallel()
	long := "#cloud-config\n" + strings.Repeat("# padding\n", 10000)
	w := newEnv(t, cluster(), machine(), secret("boot", long), machineClass(corev1.SecretReference{Name: "boot"}),
		config(fromClass))
	w.reconcile()
	r, err := gzip.NewReader(strings.NewReader(w.value()))
	if err != nil {
		t.Fatalf("%v; Ready = %s", err, w.ready())
	}
	if unpacked, err := io.ReadAll(r); err != nil || string(unpacked) != long {
		t.Errorf("data for cloud-init is packed where it is longer than the cloud takes: %v", err)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	elsewhere := secret("boot", userData)
	elsewhere.Namespace = "other"
	script := "#!/bin/sh\n" + strings.Repeat("# padding\n", 10000)
	class := machineClass(corev1.SecretReference{Name: "boot"})
	cases := map[string]struct {
		reason  string
		objects []client.Object
		want    string // part of "reason: message"
	}{
		"NoSource": {
			"Nothing says what the VM boots with.",
			[]client.Object{config(func(c *bootstrapv1.MCMConfig) {
				c.Spec = bootstrapv1.MCMConfigSpec{}
			})},
			machinev1.ReasonInvalidSpec + ": spec.machineClassRef, spec.userDataSecretRef: set exactly one",
		},
		"TwoSources": {"Two sources contradict each other.", []client.Object{config(func(c *bootstrapv1.MCMConfig) {
			c.Spec.MachineClassRef = &bootstrapv1.NameReference{Name: "small"}
		})}, machinev1.ReasonInvalidSpec + ": spec.machineClassRef, spec.userDataSecretRef: set exactly one"},
		"NoSecret": {
			"The Secret is missing.",
			[]client.Object{config()},
			machinev1.ReasonSecretNotFound + `: spec.userDataSecretRef.name: there is no Secret "boot"`,
		},
		"NoKey": {
			"The Secret lacks its entry.",
			[]client.Object{config(), secret("boot", "")},
			machinev1.ReasonInvalidUserData + `: spec.userDataSecretRef.name: Secret "boot" has no entry "userData"; add one`,
		},
		"NoClass": {
			"The class is missing.",
			[]client.Object{config(fromClass)},
			machinev1.ReasonClassNotFound + ": spec.machineClassRef.name:",
		},
		"NoSecretOfClass": {
			"The class's Secret is missing.",
			[]client.Object{config(fromClass), class},
			machinev1.ReasonSecretNotFound + ": spec.machineClassRef.name:",
		},
		"NoKeyOfClass": {
			"The class's Secret lacks its entry.",
			[]client.Object{config(fromClass), class, secret("boot", "")},
			machinev1.ReasonInvalidUserData + ": spec.machineClassRef.name:",
		},
		"OtherNamespace": {
			"A class may not lend out other namespaces' Secrets.",
			[]client.Object{
				config(fromClass), machineClass(corev1.SecretReference{Name: "boot", Namespace: "other"}),
				elsewhere,
			},
			bootstrapv1.ReasonSecretNotAllowed + ": spec.machineClassRef.name:",
		},
		"TooLong": {
			"Nothing but cloud-init unpacks.",
			[]client.Object{config(fromClass), class, secret("boot", script)},
			machinev1.ReasonInvalidUserData + ": spec.machineClassRef.name: boot data is",
		},
		"WrongFormat": {
			"The format is checked where it is set.",
			[]client.Object{config(func(c *bootstrapv1.MCMConfig) {
				c.Spec.Format = "ignition"
			}), secret("boot", userData)},
			machinev1.ReasonInvalidUserData + ": spec.format: is ignition, but",
		},
		"NameTaken": {
			"Another's Secret is not overwritten.",
			[]client.Object{
				config(), secret("m1", "precious"),
				secret("boot", userData),
			},
			bootstrapv1.ReasonDataSecretNameTaken + `: metadata.name: Secret "m1" exists`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, append(copies(tc.objects), cluster(), machine())...)
			w.reconcile()
			if !strings.HasPrefix(w.ready(), tc.want) {
				t.Errorf("Ready = %q, want %q…: %s", w.ready(), tc.want, tc.reason)
			}
			if e := w.event(); !strings.HasPrefix(e, corev1.EventTypeWarning) || strings.Contains(e, "padding") ||
				strings.Contains(e, "precious") {
				t.Errorf("a mistake is told once, without the content: %q", e)
			}
			if w.config().Status.DataSecretName != "" || len(w.tokens()) > 0 && name != "TooLong" {
				t.Errorf("nothing may be made: %v", w.writes)
			}
			w.pass(time.Minute)
			w.writes = nil
			if w.reconcile(); len(w.writes) > 0 || w.event() != "" {
				t.Errorf("the same mistake is not told twice: %v", w.writes)
			}
		})
	}
}

func TestAllowedNamespace(t *testing.T) {
	t.Parallel()
	elsewhere := secret("boot", userData)
	elsewhere.Namespace = "other"
	elsewhere.Annotations = map[string]string{machinev1.AllowedNamespacesAnnotation: "x, default"}
	w := newEnv(t, cluster(), machine(), elsewhere, machineClass(corev1.SecretReference{
		Name:      "boot",
		Namespace: "other",
	}), config(fromClass))
	w.reconcile()
	hasToken(t, w.value(), w.tokens())
}

func TestCorrectedInput(t *testing.T) {
	t.Parallel()
	w := newEnv(t, cluster(), machine(), secret("boot", ""), config())
	w.reconcile()
	s := &corev1.Secret{}
	w.change(s, client.ObjectKey{Namespace: "default", Name: "boot"}, func() { s.Data["userData"] = []byte(userData) })
	w.reconcile()
	if w.ready() != "True" {
		t.Errorf("corrected input is used at once: %s", w.ready())
	}
}

// copies are what a fake client may write to: tests run side by side.
func copies(objects []client.Object) []client.Object {
	var out []client.Object
	for _, o := range objects {
		out = append(out, o.DeepCopyObject().(client.Object))
	}
	return out
}
