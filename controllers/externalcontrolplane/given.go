package externalcontrolplane

import (
	"context"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
)

// Entries of a Secret that may have a kubeconfig, the first one wins.
const (
	keyValue      = "value"
	keyKubeconfig = "kubeconfig"
)

// kubeconfig is a connection to an API server, and the annotations of its Secret.
type kubeconfig struct {
	cluster *clientcmdapi.Cluster
	user    *clientcmdapi.AuthInfo
	notes   map[string]string // annotations of the Secret
}

// givenKubeconfig returns the kubeconfig in the Secret that the spec names.
func (c *Controller) givenKubeconfig(ctx context.Context, s *scope, name string) (kubeconfig, error) {
	const field = "spec.kubeconfigSecretRef.name"
	if name == s.secretKey().Name {
		return kubeconfig{}, wrong(machinev1.ReasonInvalidSpec,
			"%s: %q is the name of the Secret that is made from it; give the kubeconfig in a Secret of another name", field,
			name)
	}
	secret := &corev1.Secret{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: s.cp.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return kubeconfig{}, wrong(machinev1.ReasonSecretNotFound,
			"%s: there is no Secret %q in namespace %q; create it or name another one", field, name, s.cp.Namespace)
	}
	if err != nil {
		return kubeconfig{}, fmt.Errorf("read Secret %s: %w", name, err)
	}
	data := secret.Data[keyValue]
	if len(data) == 0 {
		data = secret.Data[keyKubeconfig]
	}
	if len(data) == 0 {
		return kubeconfig{}, wrong(machinev1.ReasonInvalidSecret,
			"%s: Secret %q has no entry %q or %q; add one with the kubeconfig", field, name, keyValue, keyKubeconfig)
	}
	out, why := parse(data)
	if why != "" {
		return kubeconfig{}, wrong(controlplanev1.ReasonKubeconfigRefused, "%s: Secret %q: %s", field, name, why)
	}
	return out, capi.EnsureMoveLabel(ctx, c.Client, secret)
}

// parse returns cluster and user of the current context of a kubeconfig, or why it cannot
// be used. The text contains names only, no secrets.
func parse(data []byte) (out kubeconfig, why string) {
	config, err := clientcmd.Load(data)
	if err != nil {
		return out, "is not a kubeconfig"
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return out, fmt.Sprintf("current-context: there is no context %q", config.CurrentContext)
	}
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	if cluster == nil {
		return out, fmt.Sprintf("contexts[%s].context.cluster: there is no cluster %q", config.CurrentContext,
			current.Cluster)
	}
	if user == nil {
		return out, fmt.Sprintf("contexts[%s].context.user: there is no user %q", config.CurrentContext, current.AuthInfo)
	}
	if why := refuseCluster(cluster); why != "" {
		return out, fmt.Sprintf("clusters[%s].cluster.%s", current.Cluster, why)
	}
	if why := refuseUser(user); why != "" {
		return out, fmt.Sprintf("users[%s].user.%s", current.AuthInfo, why)
	}
	return kubeconfig{cluster: cluster, user: user}, ""
}

// refuseCluster returns why a cluster cannot be used; empty if it can.
func refuseCluster(c *clientcmdapi.Cluster) string {
	switch {
	case !isServer(c.Server):
		return "server: is not the URL of an API server"
	case c.CertificateAuthority != "":
		return "certificate-authority: files of other machines cannot be read; use certificate-authority-data"
	case c.InsecureSkipTLSVerify && len(c.CertificateAuthorityData) > 0:
		return "insecure-skip-tls-verify: contradicts certificate-authority-data; remove one of them"
	}
	if proxy, err := url.Parse(c.ProxyURL); err != nil || c.ProxyURL != "" && proxy.Host == "" {
		return "proxy-url: is not the URL of a proxy"
	}
	return ""
}

func isServer(text string) bool {
	server, err := url.Parse(text)
	return err == nil && server.Hostname() != "" && (server.Scheme == "https" || server.Scheme == "http")
}

// refuseUser returns why a user cannot be used; empty if it can.
// Source: Cluster API refuses exec and authProvider in its connections.
func refuseUser(u *clientcmdapi.AuthInfo) string {
	files := "files of other machines cannot be read; "
	switch {
	case u.Exec != nil:
		return "exec: controllers run no programs; use a token or a client certificate"
	case u.AuthProvider != nil:
		return "auth-provider: is not supported; use a token or a client certificate"
	case u.TokenFile != "" && u.Token == "":
		return "tokenFile: " + files + "use token"
	case u.ClientCertificate != "":
		return "client-certificate: " + files + "use client-certificate-data"
	case u.ClientKey != "":
		return "client-key: " + files + "use client-key-data"
	case (len(u.ClientCertificateData) > 0) != (len(u.ClientKeyData) > 0):
		return "client-certificate-data: a client certificate needs its client-key-data, and the other way round"
	}
	return ""
}
