package cluster

import (
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config returns a new client configuration of the administrator, without a
// client-side limit.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{
		Host:            c.URL(),
		BearerToken:     c.pki.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.CA()},
		QPS:             -1,
	}
}

// ConfigFor is Config for another user. Its requests are told apart by that
// name in the audit log, and it may do what RBAC grants it: nothing at first,
// everything if system:masters is among its groups. A user named
// system:serviceaccount:<namespace>:<name> is that service account.
func (c *Cluster) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	cert, key, err := c.pki.ca.user(user, groups)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            c.URL(),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.CA(), CertData: cert, KeyData: key},
		QPS:             -1,
	}, nil
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// KubeconfigFor writes a kubeconfig with a client certificate for another user,
// as ConfigFor, and returns its path.
func (c *Cluster) KubeconfigFor(user string, groups ...string) (string, error) {
	config, err := c.ConfigFor(user, groups...)
	if err != nil {
		return "", err
	}
	name := strings.NewReplacer(":", "-", "/", "-").Replace(user)
	path := filepath.Join(c.dir, fmt.Sprintf("kubeconfig-%s-%s", name, randomHex()[:6]))
	return path, writeKubeconfig(path, config)
}

func writeKubeconfig(path string, config *rest.Config) error {
	const name = "test-cluster"
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: config.Host, CertificateAuthorityData: config.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
}
