// Package sign signs what a release consists of, in the forms that cosign verifies.
package sign

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
)

// A Signer signs with one private key.
type Signer struct{ key signature.SignerVerifier }

// Load reads a private key in PEM, as cosign or openssl makes it. That of an
// encrypted key comes from password, which is called only then.
func Load(file string, password func() ([]byte, error)) (*Signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(text, func(bool) ([]byte, error) { return password() })
	if err != nil {
		return nil, fmt.Errorf("read the private key in %s: %w", file, err)
	}
	key, err := signature.LoadSignerVerifier(private, crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("private key in %s: %w", file, err)
	}
	return &Signer{key}, nil
}

// PublicKey returns the key that verifies, in PEM.
func (s *Signer) PublicKey() ([]byte, error) {
	key, err := s.key.PublicKey()
	if err != nil {
		return nil, err
	}
	return cryptoutils.MarshalPublicKeyToPEM(key)
}

// Blob returns the signature of data as cosign verify-blob reads it, in base64.
func (s *Signer) Blob(data []byte) ([]byte, error) {
	signed, err := s.key.SignMessage(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return append([]byte(base64.StdEncoding.EncodeToString(signed)), '\n'), nil
}

// Statement returns an in-toto statement in its signed envelope (DSSE).
func (s *Signer) Statement(statement []byte) ([]byte, error) {
	return dsse.WrapSigner(s.key, "application/vnd.in-toto+json").SignMessage(bytes.NewReader(statement))
}

// What cosign keeps a signature of an image in.
const (
	payloadType         = types.MediaType("application/vnd.dev.cosign.simplesigning.v1+json")
	signatureAnnotation = "dev.cosignproject.cosign/signature"
)

// Image returns the tag that cosign looks for a signature of image under, and what
// is stored there.
func (s *Signer) Image(image name.Digest) (name.Tag, v1.Image, error) {
	payload, signed, err := signature.SignImage(s.key, image, nil)
	if err != nil {
		return name.Tag{}, nil, err
	}
	hash, err := v1.NewHash(image.DigestStr())
	if err != nil {
		return name.Tag{}, nil, err
	}
	stored := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	stored, err = mutate.Append(stored, mutate.Addendum{
		Layer:       static.NewLayer(payload, payloadType),
		Annotations: map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString(signed)},
	})
	return image.Tag(hash.Algorithm + "-" + hash.Hex + ".sig"), stored, err
}
