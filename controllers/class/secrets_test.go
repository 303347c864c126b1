package class_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func TestSecretFinalizer(t *testing.T) {
	t.Parallel()
	held := func(s *corev1.Secret) *corev1.Secret {
		s.Finalizers = []string{"other/one", machinev1.SecretFinalizer}
		return s
	}
	leaving := machineClass()
	deleting(leaving, machinev1.Finalizer)
	onlyCredentials := machineClass(func(c *machinev1.MachineClass) { c.SecretRef = nil })
	cases := map[string]struct {
		reason  string
		classes []client.Object
		secret  *corev1.Secret
		want    []string
		writes  int
	}{
		"SecretRef": {
			"Both references hold.",
			[]client.Object{machineClass()},
			secret("default", "boot"),
			[]string{machinev1.SecretFinalizer},
			1,
		},
		"Credentials": {
			"A class may name credentials alone.",
			[]client.Object{onlyCredentials},
			secret("other", "keys"),
			[]string{machinev1.SecretFinalizer},
			1,
		},
		"Namespace": {
			"A Secret of the same name elsewhere is not touched.",
			[]client.Object{machineClass()},
			secret("default", "keys"), nil, 0,
		},
		"Unnamed": {
			"Secrets that no class names are not touched.",
			[]client.Object{machineClass()},
			secret("default", "other"), nil, 0,
		},
		"NoLongerNamed": {
			"A Secret is free when no class names it; others' finalizers stay.", nil,
			held(secret("default", "boot")),
			[]string{"other/one"},
			1,
		},
		"LeavingClass": {
			"A class that is held still needs its Secrets.",
			[]client.Object{leaving},
			held(secret("default", "boot")),
			[]string{"other/one", machinev1.SecretFinalizer},
			0,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, append(tc.classes, tc.secret)...)
			for range 2 {
				w.run(w.secrets, tc.secret)
			}
			w.ends(tc.reason, tc.secret, tc.want, tc.writes)
		})
	}
}

func TestSecretDeletionWaits(t *testing.T) {
	t.Parallel()
	s := secret("default", "boot")
	deleting(s, machinev1.SecretFinalizer)
	c := machineClass()
	w := newEnv(t, c, s)
	for range 2 {
		w.run(w.secrets, s)
	}
	want := []string{"Warning DeletionWaits Deletion waits for MachineClass default/a, which names this Secret; " +
		"delete that first"}
	if diff := cmp.Diff(want, w.Heard()); diff != "" {
		t.Errorf("the wait is visible, once (-want +got):\n%s", diff)
	}
	harness.Edit(w.Cluster, c, func(c *machinev1.MachineClass) { c.SecretRef.Name = "another" })
	w.run(w.secrets, s)
	if w.Reload(s) {
		t.Error("the Secret goes when the class names another")
	}
}
