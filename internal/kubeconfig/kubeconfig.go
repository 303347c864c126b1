// Package kubeconfig reads the kubeconfigs that are in Secrets. Who writes such a Secret need not
// be who runs the manager, and the libraries that connect would run programs and read files in the
// manager's pod, its own token among them, and send what they got to the server of the same Secret.
//
// So all of them are parsed here first, and the libraries get what is left: one server and one user,
// whose certificates and credentials are in the kubeconfig itself. Kubeconfigs that an operator
// names by a flag are files, and none of this package's.
package kubeconfig

import (
	"fmt"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Connection is a server and who to be there: the current context of a kubeconfig, with nothing
// that is outside of it. The zero value is none.
type Connection struct {
	Cluster *clientcmdapi.Cluster  // its server is a URL with scheme and host
	User    *clientcmdapi.AuthInfo // nil until there is one; Parse returns none without
}

// RefusedError is an error: why a kubeconfig is not used. It quotes names of fields, contexts, clusters
// and users, and no values.
type RefusedError struct {
	Secret string // name of the Secret that has it, where that is not known from elsewhere
	Field  string // such as users[admin].user.exec; empty: the whole kubeconfig
	Cause  string
	Remedy string
}

func (r *RefusedError) Error() string {
	text := r.Cause + "; " + r.Remedy
	if r.Field != "" {
		text = r.Field + ": " + text
	}
	if r.Secret != "" {
		text = fmt.Sprintf("Secret %q: %s", r.Secret, text)
	}
	return text
}

// Parse returns the current context of a kubeconfig; the others do not matter. The error is a
// *RefusedError.
func Parse(data []byte) (Connection, error) {
	const present = "name one that there is"
	config, err := clientcmd.Load(data)
	if err != nil { // it may quote what it cannot read
		return Connection{}, &RefusedError{Cause: "is not a kubeconfig", Remedy: "write one as kubectl reads it"}
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return Connection{}, refuse("current-context", fmt.Sprintf("there is no context %q", config.CurrentContext), present)
	}
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	if cluster == nil {
		return Connection{}, refuse(fmt.Sprintf("contexts[%s].context.cluster", config.CurrentContext),
			fmt.Sprintf("there is no cluster %q", current.Cluster), present)
	}
	if user == nil {
		return Connection{}, refuse(fmt.Sprintf("contexts[%s].context.user", config.CurrentContext),
			fmt.Sprintf("there is no user %q", current.AuthInfo), present)
	}
	if r := refuseCluster(cluster, user); r != nil {
		r.Field = fmt.Sprintf("clusters[%s].cluster.%s", current.Cluster, r.Field)
		return Connection{}, r
	}
	if r := refuseUser(user); r != nil {
		r.Field = fmt.Sprintf("users[%s].user.%s", current.AuthInfo, r.Field)
		return Connection{}, r
	}
	return Connection{Cluster: cleanCluster(cluster, user), User: cleanUser(user)}, nil
}

// refuseCluster returns why a cluster cannot be used; nil if it can.
func refuseCluster(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) *RefusedError {
	switch {
	case serverOf(c, u) == "":
		return refuse("server", "is not the URL of an API server", "write one such as https://api.example.com:6443")
	case c.CertificateAuthority != "":
		return refuseFile("certificate-authority", "certificate-authority-data")
	case c.InsecureSkipTLSVerify && len(c.CertificateAuthorityData) > 0:
		return refuse("insecure-skip-tls-verify", "contradicts certificate-authority-data", "remove one of them")
	case c.ProxyURL != "" && !isURL(c.ProxyURL, "http", "https", "socks5"):
		return refuse("proxy-url", "is not the URL of a proxy", "write one such as http://proxy.example.com:3128")
	}
	return nil
}

// refuseUser returns why a user cannot be used; nil if it can. Acting as another user is no reason:
// the server that is asked for it decides.
// Source: Cluster API refuses exec and authProvider in its connections; client-go reads tokenFile
// although there is a token, and then uses what it has read.
func refuseUser(u *clientcmdapi.AuthInfo) *RefusedError {
	const remedy = "use a token or a client certificate"
	switch {
	case u.Exec != nil:
		return refuse("exec", "controllers run no programs", remedy)
	case u.AuthProvider != nil:
		return refuse("auth-provider", "is not supported", remedy)
	case u.TokenFile != "":
		return refuseFile("tokenFile", "token")
	case u.ClientCertificate != "":
		return refuseFile("client-certificate", "client-certificate-data")
	case u.ClientKey != "":
		return refuseFile("client-key", "client-key-data")
	case (len(u.ClientCertificateData) > 0) != (len(u.ClientKeyData) > 0):
		return refuse("client-certificate-data", "a client certificate needs its client-key-data, and the other way round",
			"add the one that is missing")
	case u.Token != "" && (u.Username != "" || u.Password != ""):
		return refuse("token", "contradicts username and password", "remove one of them")
	}
	return nil
}

func refuseFile(field, instead string) *RefusedError {
	return refuse(field, "files of other machines cannot be read, and those of the manager are not given away",
		"remove it and write the content into "+instead)
}

func refuse(field, cause, remedy string) *RefusedError {
	return &RefusedError{Field: field, Cause: cause, Remedy: remedy}
}

// cleanCluster returns a cluster with the fields that are known to be harmless, which a later
// client-go may have more of.
func cleanCluster(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) *clientcmdapi.Cluster {
	return &clientcmdapi.Cluster{
		Server: serverOf(c, u), TLSServerName: c.TLSServerName, InsecureSkipTLSVerify: c.InsecureSkipTLSVerify,
		CertificateAuthorityData: c.CertificateAuthorityData, ProxyURL: c.ProxyURL,
		DisableCompression: c.DisableCompression,
	}
}

// cleanUser returns a user in the same way.
func cleanUser(u *clientcmdapi.AuthInfo) *clientcmdapi.AuthInfo {
	return &clientcmdapi.AuthInfo{
		ClientCertificateData: u.ClientCertificateData, ClientKeyData: u.ClientKeyData, Token: u.Token,
		Username: u.Username, Password: u.Password,
		Impersonate: u.Impersonate, ImpersonateUID: u.ImpersonateUID, ImpersonateGroups: u.ImpersonateGroups,
		ImpersonateUserExtra: u.ImpersonateUserExtra,
	}
}

// serverOf returns the URL of a server; empty if it is none. Where it has no scheme, it is https if
// there is anything for TLS, as client-go decides it for a complete configuration.
func serverOf(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) string {
	hasTLS := len(c.CertificateAuthorityData) > 0 || c.InsecureSkipTLSVerify || len(u.ClientCertificateData) > 0
	server, _, err := rest.DefaultServerURL(c.Server, "", schema.GroupVersion{}, hasTLS)
	if err != nil || !isURL(server.String(), "http", "https") {
		return ""
	}
	if isURL(c.Server, "http", "https") {
		return c.Server
	}
	return server.String()
}

func isURL(text string, schemes ...string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Hostname() != "" && slices.Contains(schemes, u.Scheme)
}

// Unverified returns why whoever answers at the address of the server is believed to be it; empty if
// the server has to prove who it is. Over plain http client-go sends no credentials.
func (c Connection) Unverified() string {
	u, err := url.Parse(c.Cluster.Server)
	switch {
	case err != nil || u.Scheme != "https":
		return "server is not https"
	case c.Cluster.InsecureSkipTLSVerify:
		return "insecure-skip-tls-verify is true"
	}
	return ""
}

// Write returns the connection as a kubeconfig of one context, whose entries have that name. Equal
// ones have equal bytes.
func (c Connection) Write(name string) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[name], config.AuthInfos[name] = c.Cluster, c.User
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}
