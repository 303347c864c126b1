package machine

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
	"github.com/capmcm/cluster-api-provider-mcm/internal/logging"
)

// quotedToken is a credential of which a cloud quotes the first half.
const quotedToken = "Zk3v0Qm81LxWcPeT7sYbHn5JrAu2DgKfXoVi9MtRh4BzEwCy6NqSjUlGpIdFaO8x"

// quotingDriver refuses logins, or creations, with a part of the token.
type quotingDriver struct {
	cloud.Driver

	login bool
}

func (d quotingDriver) Open(ctx context.Context, c cloud.Class, creds cloud.Credentials) (cloud.Account, error) {
	token := string(creds["secretKey"])
	refused := cloud.Errorf(cloud.Throttled, "create server", "RateLimit", "limit of token '%s' reached",
		token[:len(token)/2])
	if d.login {
		return nil, refused
	}
	creds = maps.Clone(creds)
	creds["secretKey"] = []byte("demo-secret")
	a, err := d.Driver.Open(ctx, c, creds)
	return quotingAccount{a, refused}, err
}

type quotingAccount struct {
	cloud.Account

	refused error
}

func (a quotingAccount) Create(context.Context, cloud.CreateRequest) (cloud.VM, error) {
	return cloud.VM{}, a.refused
}

// TestQuotedTokenIsShownNowhere: what a cloud quotes of a token is neither in the machine nor in an
// Event nor in a log of any level, and the rest of its text is there.
func TestQuotedTokenIsShownNowhere(t *testing.T) {
	t.Parallel()
	for name, login := range map[string]bool{"login": true, "creation": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, interceptor.Funcs{})
			w.editSecret(func(s *corev1.Secret) { s.Data["secretKey"] = []byte(quotedToken) })
			clouds, err := cloud.NewRegistry([]cloud.Driver{quotingDriver{w.cloud.Driver(), login}}, w.clock.Now,
				wrap.Redact(nil), logging.Account)
			w.Must(err)
			d := w.controller.Deps
			d.Clouds = clouds
			w.controller = New(d)
			var shown strings.Builder
			ctx := log.IntoContext(w.Context(), funcr.New(func(prefix, args string) { shown.WriteString(prefix + args + "\n") },
				funcr.Options{Verbosity: 10}))
			w.create(newMachine("m", w.clock.Now()))
			for range 5 {
				if _, err := w.controller.Reconcile(ctx, reconcile.Request{NamespacedName: keyOf("m")}); err != nil {
					shown.WriteString(err.Error() + "\n")
				}
				w.pass(time.Minute)
			}
			logged := strings.Contains(shown.String(), "[redacted]")
			text, err := json.Marshal(w.machine("m"))
			w.Must(err)
			inMachine := strings.Contains(string(text), "limit of token '[redacted]' reached")
			shown.Write(text)
			for len(w.events.Events) > 0 {
				shown.WriteString(<-w.events.Events)
			}
			if all := shown.String(); strings.Contains(all, quotedToken[:12]) || !inMachine || !logged && !login {
				t.Errorf("shown in the machine %v, in a log %v, want no part of the token anywhere: %s", inMachine, logged, all)
			}
		})
	}
}
