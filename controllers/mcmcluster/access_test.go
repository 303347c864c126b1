package mcmcluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

// TestKubeconfigOfTheCluster: a Cluster may have any control plane provider, and one MCMCluster.
func TestKubeconfigOfTheCluster(t *testing.T) {
	t.Parallel()
	const secure = `server: "https://a", certificate-authority-data: YQ==`
	cases := map[string]struct{ reason, cluster, user, want string }{
		"Safe": {"There is nothing to say.", secure, "token: s3cret", "True KubeconfigSafe: "},
		"TokenFile": {
			"The connection is refused in a log that its author cannot read.",
			secure, "tokenFile: /var/run/secrets/x", `False KubeconfigRefused: the kubeconfig is not used: ` +
				`Secret "c1-kubeconfig": users[u].user.tokenFile: `,
		},
		"SkipVerify": {
			"It is used, and its author should know.",
			`server: "https://a", insecure-skip-tls-verify: true`, "token: s3cret", "False ServerNotVerified: ",
		},
		"HTTP": {"The same.", `server: "http://a"`, "token: s3cret", "False ServerNotVerified: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1-kubeconfig"}}
			secret.Data = map[string][]byte{"value": fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x,
clusters: [{name: c, cluster: {%s}}], users: [{name: u, user: {%s}}],
contexts: [{name: x, context: {cluster: c, user: u}}]}`, tc.cluster, tc.user)}
			w := newEnv(t, object(), cluster(), template("t1", "c1", "c1"), classIn("c1", "a", "b"))
			w.run()
			if got := w.condition(infrav1.KubeconfigSafeCondition); got != "" {
				t.Errorf("without a kubeconfig there is %q", got)
			}
			w.harness.Must(w.client.Create(t.Context(), secret))
			if got := w.ofSecret(t.Context(), secret); len(got) != 1 || got[0].NamespacedName != key {
				t.Errorf("the Secret wakes %v, want the MCMCluster", got)
			}
			w.run()
			if got := w.condition(infrav1.KubeconfigSafeCondition); !strings.HasPrefix(got, tc.want) ||
				strings.Contains(got, "s3cret") {
				t.Errorf("KubeconfigSafe is %q, want %q: %s", got, tc.want, tc.reason)
			}
			if ready := w.condition("Ready"); !strings.HasPrefix(ready, "True ") {
				t.Errorf("machines can be made all the same: Ready is %q", ready)
			}
			told := len(w.events.Events)
			if w.run(); told != len(w.events.Events) || (told > 0) != strings.HasPrefix(tc.want, "False ") {
				t.Errorf("%d Events, then %d; a mistake is told once", told, len(w.events.Events))
			}
			w.harness.Must(w.client.Delete(t.Context(), secret))
			w.run()
			if got := w.condition(infrav1.KubeconfigSafeCondition); got != "" {
				t.Errorf("of a kubeconfig that is gone there is %q", got)
			}
		})
	}
}

// withoutSecrets is a client that no Secret can be read through.
type withoutSecrets struct{ client.Client }

func (c withoutSecrets) Get(ctx context.Context, key client.ObjectKey, o client.Object,
	opts ...client.GetOption,
) error {
	if _, secret := o.(*corev1.Secret); secret {
		return errors.New("no answer")
	}
	return c.Client.Get(ctx, key, o, opts...)
}

// TestKubeconfigCannotBeRead: nothing else waits for it.
func TestKubeconfigCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newEnv(t, object(), cluster(), template("t1", "c1", "c1"), classIn("c1", "a", "b"))
	deps := w.Deps
	deps.Client = withoutSecrets{w.harness.Client}
	if _, err := New(deps).Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err == nil {
		t.Error("nobody looks again")
	}
	if ready := w.condition("Ready"); !strings.HasPrefix(ready, "True ") {
		t.Errorf("Ready is %q", ready)
	}
}
