package mcmexternalcontrolplane

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// redirect returns the cluster of a kubeconfig with the endpoint that the spec wants; zero keeps its
// own. It keeps the path, which may select a cluster behind a proxy.
//
// Who may write the endpoint need not be who may read the kubeconfig, whose credentials go there. So
// another address has to prove that it is the same API server: with a certificate of the kubeconfig's
// own authority, for the name that it had before. Of a public authority anybody has a certificate, and
// of a cluster's own one its kubelets. The same host with another port counts as another address.
func redirect(c *clientcmdapi.Cluster, to clusterv1.APIEndpoint) (*clientcmdapi.Cluster, error) {
	if to.IsZero() {
		return c, nil
	}
	u, err := url.Parse(c.Server)
	if err != nil {
		return nil, err // it was parsed before
	}
	out, from := c.DeepCopy(), endpointOf(c.Server)
	u.Host = net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port)))
	out.Server = u.String()
	if strings.EqualFold(from.Host, to.Host) && from.Port == to.Port {
		return out, nil
	}
	const field = "spec.controlPlaneEndpoint: is another address than the server of the kubeconfig, "
	switch {
	case u.Scheme != "https":
		return nil, wrong(machinev1.ReasonInvalidSpec, field+"which is not https, so that any server there would be "+
			"believed; give a kubeconfig with an https server and certificate-authority-data, or remove the endpoint")
	case c.InsecureSkipTLSVerify:
		return nil, wrong(machinev1.ReasonInvalidSpec, field+"which has insecure-skip-tls-verify, so that any server there "+
			"would get its credentials; give certificate-authority-data instead, or remove the endpoint")
	case len(c.CertificateAuthorityData) == 0:
		return nil, wrong(machinev1.ReasonInvalidSpec, field+"which has no certificate-authority-data, so that any server "+
			"with a certificate of a public authority would get its credentials; add that of the API server, or remove the "+
			"endpoint")
	}
	if out.TLSServerName == "" {
		out.TLSServerName = from.Host
	}
	return out, nil
}

// endpointOf returns the host and port of a server; zero if it has none.
func endpointOf(server string) clusterv1.APIEndpoint {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return clusterv1.APIEndpoint{}
	}
	port, err := strconv.ParseInt(u.Port(), 10, 32)
	if err != nil {
		port = map[string]int64{"https": 443, "http": 80}[u.Scheme]
	}
	return clusterv1.APIEndpoint{Host: u.Hostname(), Port: int32(port)}
}
