package capi

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serving writes the certificate that a webhook server on 127.0.0.1 serves with,
// and its key, to a folder, and returns it: it signs itself, so that it is also
// what callers have to trust.
func serving(dir string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "webhooks"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return cert, errors.Join(os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
			0o600))
}

// redirect is where webhooks of a namespace's services are called instead: there
// is no Service here, and no Pod behind it.
type redirect struct {
	namespace, url string
	ca             []byte
}

// all redirects what is configured now.
func (r redirect) all(ctx context.Context, cl client.Client) error {
	return errors.Join(r.validating(ctx, cl), r.mutating(ctx, cl), r.conversion(ctx, cl))
}

func (r redirect) validating(ctx context.Context, cl client.Client) error {
	var list admissionv1.ValidatingWebhookConfigurationList
	if err := cl.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		item := &list.Items[i]
		before := item.DeepCopy()
		for j := range item.Webhooks {
			r.change(&item.Webhooks[j].ClientConfig)
		}
		if err := cl.Patch(ctx, item, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}

func (r redirect) mutating(ctx context.Context, cl client.Client) error {
	var list admissionv1.MutatingWebhookConfigurationList
	if err := cl.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		item := &list.Items[i]
		before := item.DeepCopy()
		for j := range item.Webhooks {
			r.change(&item.Webhooks[j].ClientConfig)
		}
		if err := cl.Patch(ctx, item, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}

func (r redirect) change(c *admissionv1.WebhookClientConfig) {
	if c.Service == nil || c.Service.Namespace != r.namespace {
		return
	}
	c.URL, c.CABundle = new(r.url+ptr.Deref(c.Service.Path, "")), r.ca
	c.Service = nil
}

func (r redirect) conversion(ctx context.Context, cl client.Client) error {
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := cl.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		crd := &list.Items[i]
		c := crd.Spec.Conversion
		if c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil || c.Webhook.ClientConfig.Service == nil ||
			c.Webhook.ClientConfig.Service.Namespace != r.namespace {
			continue
		}
		before := crd.DeepCopy()
		c.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{URL: new(r.url + "/convert"), CABundle: r.ca}
		if err := cl.Patch(ctx, crd, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("%s: %w", crd.Name, err)
		}
	}
	return nil
}
