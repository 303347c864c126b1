package manager

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/metrics"
)

// How long an answer of the API server about a token counts, and how many are kept.
const (
	reviewAllowed = time.Minute
	reviewDenied  = 10 * time.Second
	reviewTimeout = 10 * time.Second
	reviewsKept   = 1000 // of those who may, and as many of the others
)

// Reviews that the API server is asked for, in all: whoever reaches the port could otherwise
// have this process ask for each token that they make up.
const (
	reviewsPerSecond = 5
	reviewsAtOnce    = 20
)

// reviewer asks the API server who sends a request, and whether they may: a TokenReview
// and a SubjectAccessReview, as kubelets and other components do.
type reviewer struct {
	clients kubernetes.Interface
	limit   flowcontrol.PassiveRateLimiter
	allowed *cache.LRUExpireCache // int, the status, by reviewKey
	denied  *cache.LRUExpireCache // likewise: tokens that are made up push out no others
}

type reviewKey struct {
	token      [sha256.Size]byte
	verb, path string
}

// newReviewer returns a reviewer that asks with config. Its requests change nothing, so a
// standby has to be able to send them, too.
func newReviewer(config *rest.Config) (*reviewer, error) {
	c := rest.CopyConfig(config)
	c.Timeout = reviewTimeout
	clients, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	return reviewerOf(clients, clock.RealClock{}), nil
}

func reviewerOf(clients kubernetes.Interface, now clock.PassiveClock) *reviewer {
	return &reviewer{
		clients: clients,
		limit:   flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(reviewsPerSecond, reviewsAtOnce, now),
		allowed: cache.NewLRUExpireCache(reviewsKept), denied: cache.NewLRUExpireCache(reviewsKept),
	}
}

// guard answers 401 to requests without a valid token, and 403 to those of users without
// the right to that path, and 429 where the API server would be asked too often. It passes
// the others to next.
func (r *reviewer) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		token, found := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
		if !found || token == "" {
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		switch status := r.review(req.Context(), token, strings.ToLower(req.Method), req.URL.Path); status {
		case http.StatusOK:
			next.ServeHTTP(w, req)
		default:
			http.Error(w, http.StatusText(status), status)
		}
	})
}

// review returns the status of a request: 200 if it may be answered.
func (r *reviewer) review(ctx context.Context, token, verb, path string) int {
	key := reviewKey{sha256.Sum256([]byte(token)), verb, path}
	for _, known := range []*cache.LRUExpireCache{r.allowed, r.denied} {
		if status, ok := known.Get(key); ok {
			return status.(int)
		}
	}
	if !r.limit.TryAccept() {
		return http.StatusTooManyRequests
	}
	status, err := r.ask(ctx, token, verb, path)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Review a request for diagnostics", "path", path)
		return http.StatusInternalServerError
	}
	if status == http.StatusOK {
		r.allowed.Add(key, status, reviewAllowed)
	} else {
		r.denied.Add(key, status, reviewDenied)
	}
	return status
}

func (r *reviewer) ask(ctx context.Context, token, verb, path string) (status int, err error) {
	who, err := r.clients.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("create TokenReview: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range user.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	may, err := r.clients.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("create SubjectAccessReview: %w", err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// serveDiagnostics adds the server of --diagnostics-address, which serves what the plain
// ports serve, over TLS and to those who may. Its certificate is made at the start: it
// encrypts, and the caller's token is what counts.
func (w *wiring) serveDiagnostics(ctx context.Context, h *health) error {
	const flag = "diagnostics-address"
	address := w.server.diagnostics
	if address == "" {
		return nil
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	all := w.server
	all.insecureDiagnostics = true // of the handler: the guard is around it
	handler := w.reviews.guard(newMux(h, w.gatherer(metrics.Both), w.flags, all))
	return w.manager.Add(&manager.Server{
		Name: flag, ShutdownTimeout: new(shutdownTimeout),
		Listener: tls.NewListener(listener, &tls.Config{
			Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		}),
		Server: &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout},
	})
}
