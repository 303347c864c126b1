package machine

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestDeniedDeletionIsReleasedByTheUser(t *testing.T) {
	t.Parallel()
	for _, recorded := range []bool{true, false} {
		w := newWorld(t, interceptor.Funcs{})
		w.running("m")
		if !recorded {
			m := w.machine("m")
			m.Spec.ProviderID, m.Labels = "", nil
			w.update(m)
		}
		w.editSecret(func(s *corev1.Secret) { s.Data["secretKey"] = []byte("revoked-secret") })
		w.delete(w.machine("m"))
		_, _ = w.reconcile("m")
		if said := w.condition("m", machinev1.ConditionDeleted); !strings.HasPrefix(said,
			machinev1.ReasonCredentialsRefused) {
			t.Fatalf("condition %q has to say that the credentials are refused", said)
		}
		m := w.machine("m")
		machinev1.SetAnnotation(m, machinev1.ReleaseAnnotation, "true")
		w.update(m)
		w.settle("m", func() bool { return w.machine("m") == nil })
	}
}
