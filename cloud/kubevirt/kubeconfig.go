package kubevirt

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// kubeconfigEntry is the entry of a Secret with the way to the API server.
const kubeconfigEntry = "kubeconfig"

// config is what a kubeconfig says of its current context.
type config struct {
	Server, Namespace string
	Token             string

	ca, cert, key []byte
	serverName    string
	proxy         *url.URL
	insecure      bool
}

// kubeconfig is the part of a kubeconfig that the driver reads, and what it refuses.
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster   string `yaml:"cluster"`
			User      string `yaml:"user"`
			Namespace string `yaml:"namespace"`
		} `yaml:"context"`
	} `yaml:"contexts"`
	Clusters []struct {
		Name    string  `yaml:"name"`
		Cluster cluster `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string `yaml:"name"`
		User user   `yaml:"user"`
	} `yaml:"users"`
}

type cluster struct {
	Server     string `yaml:"server"`
	CAData     string `yaml:"certificate-authority-data"`
	CA         string `yaml:"certificate-authority"`
	ServerName string `yaml:"tls-server-name"`
	Proxy      string `yaml:"proxy-url"`
	Insecure   bool   `yaml:"insecure-skip-tls-verify"`
}

type user struct {
	Token       string    `yaml:"token"`
	CertData    string    `yaml:"client-certificate-data"`
	KeyData     string    `yaml:"client-key-data"`
	TokenFile   string    `yaml:"tokenFile"`
	Cert        string    `yaml:"client-certificate"`
	Key         string    `yaml:"client-key"`
	Exec        yaml.Node `yaml:"exec"`
	Provider    yaml.Node `yaml:"auth-provider"`
	Username    string    `yaml:"username"`
	Password    string    `yaml:"password"`
	Impersonate string    `yaml:"as"`
}

// readSecret returns what the kubeconfig of a Secret says, or what is wrong with it. No problem
// quotes it.
func readSecret(creds cloud.Credentials) (config, []cloud.Problem) {
	s := driverkit.Secret{Credentials: creds}
	text := s.First(kubeconfigEntry)
	s.Require(kubeconfigEntry, text, "a kubeconfig with a token or certificates")
	if text == "" {
		return config{}, s.Problems
	}
	c, err := parse(text)
	if err != nil {
		s.Bad(kubeconfigEntry, err.Error())
	}
	return c, s.Problems
}

// SecretsIn returns the tokens, passwords and private keys of all users of a kubeconfig. The rest of
// it only names something.
func (judge) SecretsIn(_ string, value []byte) (secrets []string, ok bool) {
	var k kubeconfig
	if err := yaml.Unmarshal(value, &k); err != nil || len(k.Users) == 0 {
		return nil, false
	}
	for _, u := range k.Users {
		key, _ := base64.StdEncoding.DecodeString(u.User.KeyData) // what is no base64 is secret as it is
		secrets = append(secrets, u.User.Token, u.User.Password, u.User.KeyData, string(key))
		if !u.User.Exec.IsZero() || !u.User.Provider.IsZero() {
			return nil, false // these may have secrets under any name
		}
	}
	return secrets, true
}

// parse reads a kubeconfig. Its errors quote nothing of it but the names of fields.
func parse(text string) (config, error) {
	var k kubeconfig
	if err := yaml.Unmarshal([]byte(text), &k); err != nil {
		return config{}, errors.New("is no kubeconfig; write YAML with clusters, users, contexts and current-context")
	}
	at, who, namespace := k.current()
	if at == nil || who == nil {
		return config{}, errors.New("has no context that current-context names, or its cluster or user is missing; add it")
	}
	if err := who.refused(); err != nil {
		return config{}, err
	}
	c := config{
		Server: strings.TrimRight(at.Server, "/"), Namespace: cmp.Or(namespace, "default"),
		Token: strings.TrimSpace(who.Token), serverName: at.ServerName, insecure: at.Insecure,
	}
	if err := c.decode(at, who); err != nil {
		return config{}, err
	}
	return c, c.check()
}

// current returns what the current context of a kubeconfig names; nil for what is missing.
func (k kubeconfig) current() (at *cluster, who *user, namespace string) {
	for _, context := range k.Contexts {
		if context.Name != k.CurrentContext {
			continue
		}
		namespace = context.Context.Namespace
		for i, c := range k.Clusters {
			if c.Name == context.Context.Cluster {
				at = &k.Clusters[i].Cluster
			}
		}
		for i, u := range k.Users {
			if u.Name == context.Context.User {
				who = &k.Users[i].User
			}
		}
		break
	}
	return at, who, namespace
}

// refused returns an error for what would run a program or read a file of the manager, or act as
// somebody else.
func (u *user) refused() error {
	const remedy = "; write a token or certificates into the kubeconfig"
	switch {
	case !u.Exec.IsZero():
		return errors.New("has a user with exec, which would run a program in the manager" + remedy)
	case !u.Provider.IsZero():
		return errors.New("has a user with auth-provider, which would run a program in the manager" + remedy)
	case u.TokenFile != "" || u.Cert != "" || u.Key != "":
		return errors.New("names a file of a user, which would be one of the manager" + remedy)
	case u.Username != "":
		return errors.New("has a user with a password, which API servers take no longer" + remedy)
	case u.Impersonate != "":
		return errors.New("acts as another user; give that user a token and remove the field as")
	}
	return nil
}

// decode reads the certificates and the proxy.
func (c *config) decode(at *cluster, who *user) error {
	if at.CA != "" {
		return errors.New("names a file of a certificate authority, which would be one of the manager; " +
			"write certificate-authority-data")
	}
	for text, into := range map[*string]*[]byte{&at.CAData: &c.ca, &who.CertData: &c.cert, &who.KeyData: &c.key} {
		var err error
		if *into, err = base64.StdEncoding.DecodeString(*text); err != nil {
			return errors.New("has certificate data that is no base64; encode the PEM")
		}
	}
	if at.Proxy == "" {
		return nil
	}
	proxy, err := url.Parse(at.Proxy)
	if err != nil || proxy.Host == "" {
		return errors.New("has a proxy-url that is no URL; correct it")
	}
	c.proxy = proxy
	return nil
}

// check looks at the parts together.
func (c config) check() error {
	server, err := url.Parse(c.Server)
	switch {
	case err != nil || server.Host == "" || server.Scheme != "https":
		return errors.New("has a server that is no address; write one such as https://api.example.com:6443")
	case server.User != nil:
		return errors.New("has a password in the address of its server; write a token or certificates into the kubeconfig")
	case c.Token == "" && len(c.cert) == 0:
		return errors.New("has a user with neither token nor client-certificate-data; add one of them")
	}
	_, err = c.tls()
	return err
}

// tls returns how connections are secured.
func (c config) tls() (*tls.Config, error) {
	t := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: c.serverName,
		InsecureSkipVerify: c.insecure, //nolint:gosec // as the kubeconfig says
	}
	if len(c.ca) > 0 {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(c.ca) {
			return nil, errors.New("has certificate-authority-data without a certificate; encode the PEM")
		}
	}
	if len(c.cert) > 0 {
		pair, err := tls.X509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, errors.New("has a client certificate and key that do not belong together, or are no PEM; correct them")
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// transport returns connections to the API server.
func (c config) transport() (*http.Transport, error) {
	secured, err := c.tls()
	if err != nil {
		return nil, err
	}
	const idle, connections = 90 * time.Second, 32
	t := &http.Transport{
		TLSClientConfig: secured, ForceAttemptHTTP2: true, IdleConnTimeout: idle, MaxIdleConnsPerHost: connections,
		Proxy: http.ProxyFromEnvironment,
	}
	if c.proxy != nil {
		t.Proxy = http.ProxyURL(c.proxy)
	}
	return t, nil
}
