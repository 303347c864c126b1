package guests

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// pki is where kubeadm looks for the cluster's certificates.
const pki = "/etc/kubernetes/pki/"

// An authority is a CA with its key.
type authority struct {
	certificate *x509.Certificate
	key         *rsa.PrivateKey
}

// authorities are those that all machines of a control plane share.
type authorities struct {
	cluster, etcd authority
}

// readAuthorities reads what a machine of a control plane needs, all of which has
// to be there: only kubeadm init makes what is missing, and then no second machine
// could join.
func readAuthorities(files map[string]string) (authorities, error) {
	cluster, err := readAuthority(files, "ca")
	etcd, etcdErr := readAuthority(files, "etcd/ca")
	_, proxyErr := readAuthority(files, "front-proxy-ca")
	var serviceAccounts error
	if files[pki+"sa.key"] == "" || files[pki+"sa.pub"] == "" {
		serviceAccounts = errors.New("the keys of ServiceAccounts are missing")
	}
	return authorities{cluster, etcd}, errors.Join(err, etcdErr, proxyErr, serviceAccounts)
}

func readAuthority(files map[string]string, name string) (authority, error) {
	pair, err := tls.X509KeyPair([]byte(files[pki+name+".crt"]), []byte(files[pki+name+".key"]))
	if err != nil {
		return authority{}, fmt.Errorf("%s: %w", pki+name, err)
	}
	key, ok := pair.PrivateKey.(*rsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return authority{}, fmt.Errorf("%s is no authority with an RSA key", pki+name)
	}
	if now := time.Now(); now.Before(pair.Leaf.NotBefore) || now.After(pair.Leaf.NotAfter) {
		return authority{}, fmt.Errorf("%s is valid from %s to %s", pki+name, pair.Leaf.NotBefore, pair.Leaf.NotAfter)
	}
	return authority{pair.Leaf, key}, nil
}

// pin is how kubeadm names an authority in caCertHashes.
func pin(ca *x509.Certificate) string {
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}
