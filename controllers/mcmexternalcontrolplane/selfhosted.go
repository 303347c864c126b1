package mcmexternalcontrolplane

import (
	"context"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/kubeconfig"
)

const (
	inClusterServer = "https://kubernetes.default.svc"
	inClusterFiles  = "/var/run/secrets/kubernetes.io/serviceaccount/"
	rootCA          = "kube-root-ca.crt" // a ConfigMap of every namespace
	rootCAKey       = "ca.crt"
)

// here is the durable id of the cluster that this process manages objects in.
func (c *Controller) here(ctx context.Context) (string, error) {
	namespace := &corev1.Namespace{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return "", fmt.Errorf("read namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(namespace.UID), nil
}

// ownKubeconfig returns the kubeconfig of a self-hosted Cluster. It means the
// cluster that the object was made in: after a move to another management
// cluster the old kubeconfig is kept, and renewed through itself.
func (c *Controller) ownKubeconfig(ctx context.Context, s *scope) (access, error) {
	here, err := c.here(ctx)
	if err != nil {
		return access{}, err
	}
	old := accessOf(s.secret)
	if here != s.cp.Annotations[controlplanev1.HomeAnnotation] {
		return c.awayKubeconfig(ctx, s, old)
	}
	cluster, err := c.ownCluster(ctx, s.cp.Namespace)
	if err != nil {
		return access{}, err
	}
	if cluster, err = redirect(cluster, s.override()); err != nil {
		return access{}, err
	}
	out := access{Connection: kubeconfig.Connection{Cluster: cluster, User: old.User}, notes: old.notes}
	renew := c.due(s, out)
	if !renew && s.connected {
		return out, nil // what is connected has all that it needs
	}
	account, err := c.ensureIdentity(ctx, s)
	if err != nil {
		return access{}, err
	}
	if !renew && out.notes[controlplanev1.TokenOfAnnotation] == string(account.UID) {
		return out, nil
	}
	if err := c.renew(ctx, s, c.Client, account, &out); err != nil {
		return access{}, fmt.Errorf("request token of ServiceAccount %s: %w", account.Name, err)
	}
	return out, nil
}

// awayKubeconfig keeps the kubeconfig of a Cluster that was moved away from the
// cluster that it means.
func (c *Controller) awayKubeconfig(ctx context.Context, s *scope, old access) (access, error) {
	if old.User == nil || old.User.Token == "" {
		return access{}, wrong(controlplanev1.ReasonMovedAway,
			"spec.selfHosted: means another cluster than this one, from which the object was moved, and there is no "+
				"kubeconfig of it; put one into a Secret and set spec.kubeconfigSecretRef.name instead")
	}
	var err error
	if old.Cluster, err = redirect(old.Cluster, s.override()); err != nil {
		return access{}, err
	}
	if !c.due(s, old) {
		return old, nil
	}
	failed := wait(controlplanev1.ReasonTokenNotRenewed,
		"the token of the kubeconfig could not be renewed by its API server; it is tried again every 30s")
	there, err := c.Clusters.GetUncachedClient(ctx, client.ObjectKeyFromObject(s.cluster))
	if err != nil {
		s.wait = renewRetry
		return access{}, failed
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.cp.Namespace, Name: accountName(s.cp)}}
	if err := c.renew(ctx, s, there, account, &old); err != nil {
		s.wait = renewRetry
		return access{}, failed
	}
	return old, nil
}

// accessOf returns the access that a Secret gives. It is zero if there is none that can be used.
func accessOf(secret *corev1.Secret) access {
	if secret == nil {
		return access{}
	}
	found, err := kubeconfig.Parse(secret.Data[keyValue])
	if err != nil {
		return access{}
	}
	out := access{Connection: found, notes: map[string]string{}}
	for _, key := range []string{controlplanev1.RenewTokenAnnotation, controlplanev1.TokenOfAnnotation} {
		out.notes[key] = secret.Annotations[key]
	}
	return out
}

// due reports whether k needs another token, and when it will.
func (c *Controller) due(s *scope, k access) bool {
	at, err := time.Parse(time.RFC3339, k.notes[controlplanev1.RenewTokenAnnotation])
	if err != nil || k.User == nil || k.User.Token == "" || !s.now.Before(at) {
		return true
	}
	s.wait = at.Sub(s.now)
	return false
}

// renew asks for another token of account, with the permissions of w. It is renewed
// after four fifths of its life, however long the API server makes that.
func (c *Controller) renew(ctx context.Context, s *scope, w client.Client, account *corev1.ServiceAccount,
	k *access,
) error {
	request := &authenticationv1.TokenRequest{}
	request.Spec.ExpirationSeconds = new(int64(tokenLifetime / time.Second))
	uid := string(account.UID)
	if err := w.SubResource("token").Create(ctx, account.DeepCopy(), request); err != nil {
		return err
	}
	life := request.Status.ExpirationTimestamp.Sub(s.now)
	if life <= 0 {
		life = tokenLifetime
	}
	s.wait = max(life/5*4, staleRetry)
	if uid == "" {
		uid = k.notes[controlplanev1.TokenOfAnnotation] // another cluster's, as it was
	}
	k.User = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	k.notes = map[string]string{
		controlplanev1.RenewTokenAnnotation: s.now.Add(s.wait).UTC().Format(time.RFC3339),
		controlplanev1.TokenOfAnnotation:    uid,
	}
	return nil
}

// ownCluster is the way to the API server of this cluster: the one that pods
// use, or, if this process runs elsewhere, its own.
func (c *Controller) ownCluster(ctx context.Context, namespace string) (*clientcmdapi.Cluster, error) {
	out := &clientcmdapi.Cluster{
		Server: inClusterServer, CertificateAuthorityData: c.Config.CAData,
		TLSServerName: c.Config.ServerName,
	}
	if !strings.HasPrefix(c.Config.BearerTokenFile, inClusterFiles) {
		server, _, err := rest.DefaultServerUrlFor(c.Config)
		if err != nil {
			return nil, fmt.Errorf("address of the management cluster: %w", err)
		}
		server.Path = strings.TrimSuffix(server.Path, "/")
		out.Server = server.String()
	}
	if c.Config.Insecure {
		out.InsecureSkipTLSVerify, out.CertificateAuthorityData = true, nil
		return out, nil
	}
	if len(out.CertificateAuthorityData) > 0 {
		return out, nil
	}
	ca := &corev1.ConfigMap{}
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: rootCA}, ca)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read ConfigMap %s: %w", rootCA, err)
	}
	if data := ca.Data[rootCAKey]; data != "" { // without one, those of the system count
		out.CertificateAuthorityData = []byte(data)
	}
	return out, nil
}
