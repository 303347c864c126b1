package externalcontrolplane

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
func (c *Controller) ownKubeconfig(ctx context.Context, s *scope) (kubeconfig, error) {
	here, err := c.here(ctx)
	if err != nil {
		return kubeconfig{}, err
	}
	old, _ := parseSecret(s.secret)
	if here != s.cp.Annotations[controlplanev1.HomeAnnotation] {
		return c.awayKubeconfig(ctx, s, old)
	}
	cluster, err := c.ownCluster(ctx, s.cp.Namespace)
	if err != nil {
		return kubeconfig{}, err
	}
	out := kubeconfig{cluster: cluster, user: old.user, notes: old.notes}
	renew := c.due(s, out)
	if !renew && s.connected {
		return out, nil // what is connected has all that it needs
	}
	account, err := c.ensureIdentity(ctx, s)
	if err != nil {
		return kubeconfig{}, err
	}
	if !renew && out.notes[controlplanev1.TokenOfAnnotation] == string(account.UID) {
		return out, nil
	}
	if err := c.renew(ctx, s, c.Client, account, &out); err != nil {
		return kubeconfig{}, fmt.Errorf("request token of ServiceAccount %s: %w", account.Name, err)
	}
	return out, nil
}

// awayKubeconfig keeps the kubeconfig of a Cluster that was moved away from the
// cluster that it means.
func (c *Controller) awayKubeconfig(ctx context.Context, s *scope, old kubeconfig) (kubeconfig, error) {
	if old.user == nil || old.user.Token == "" {
		return kubeconfig{}, wrong(controlplanev1.ReasonMovedAway,
			"spec.selfHosted: means another cluster than this one, from which the object was moved, and there is no "+
				"kubeconfig of it; put one into a Secret and set spec.kubeconfigSecretRef.name instead")
	}
	if !c.due(s, old) {
		return old, nil
	}
	failed := wait(controlplanev1.ReasonTokenNotRenewed,
		"the token of the kubeconfig could not be renewed by its API server; it is tried again every 30s")
	there, err := c.Clusters.GetUncachedClient(ctx, client.ObjectKeyFromObject(s.cluster))
	if err != nil {
		s.wait = renewRetry
		return kubeconfig{}, failed
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.cp.Namespace, Name: accountName(s.cp)}}
	if err := c.renew(ctx, s, there, account, &old); err != nil {
		s.wait = renewRetry
		return kubeconfig{}, failed
	}
	return old, nil
}

// parseSecret returns the kubeconfig that a Secret has. It is zero if there is
// none that can be read.
func parseSecret(secret *corev1.Secret) (out kubeconfig, why string) {
	if secret == nil {
		return kubeconfig{}, "there is no Secret"
	}
	out, why = parse(secret.Data[keyValue])
	out.notes = map[string]string{}
	for _, key := range []string{controlplanev1.RenewTokenAnnotation, controlplanev1.TokenOfAnnotation} {
		out.notes[key] = secret.Annotations[key]
	}
	return out, why
}

// due reports whether k needs another token, and when it will.
func (c *Controller) due(s *scope, k kubeconfig) bool {
	at, err := time.Parse(time.RFC3339, k.notes[controlplanev1.RenewTokenAnnotation])
	if err != nil || k.user == nil || k.user.Token == "" || !s.now.Before(at) {
		return true
	}
	s.wait = at.Sub(s.now)
	return false
}

// renew asks for another token of account, with the permissions of w. It is renewed
// after four fifths of its life, however long the API server makes that.
func (c *Controller) renew(ctx context.Context, s *scope, w client.Client, account *corev1.ServiceAccount,
	k *kubeconfig,
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
	k.user = &clientcmdapi.AuthInfo{Token: request.Status.Token}
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
