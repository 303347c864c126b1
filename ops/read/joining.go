package read

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/token"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// maxTokens is how many bootstrap tokens are read: one request each.
const maxTokens = 10

// joining reads what tells why nodes do not join: requests for certificates, and the
// expiration of bootstrap tokens, which a reader needs a right of its own for.
func (s Source) joining(ctx context.Context, f *explain.Facts) {
	optional(ctx, f, "CertificateSigningRequests", s.Target, &certificatesv1.CertificateSigningRequestList{}, &f.Requests)
	if s.NoSecrets {
		return
	}
	for _, o := range f.Objects {
		id := o.TokenID()
		waitsForVM := o.ProviderID == "" && (o.Kind == explain.KindMachine || o.Kind == explain.KindMCMMachine)
		if id == "" || o.Joined || waitsForVM {
			continue
		}
		if len(f.TokensRead) == maxTokens {
			return
		}
		if err := s.token(ctx, f, id); err != nil {
			f.Unread = append(f.Unread, fmt.Sprintf("bootstrap tokens: %v", err))
			return
		}
	}
}

// token reads when a bootstrap token expires, and nothing else of it.
func (s Source) token(ctx context.Context, f *explain.Facts, id string) error {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: token.SecretName(id)}
	err := s.Target.Get(ctx, key, secret)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	f.TokensRead[id] = true
	if apierrors.IsNotFound(err) {
		return nil
	}
	expires, err := time.Parse(time.RFC3339, string(secret.Data[token.KeyExpiration]))
	if err != nil {
		expires = time.Time{} // without a valid expiration a token lives for ever
	}
	f.Tokens[id] = explain.Token{Expires: expires}
	return nil
}
