package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// service is the name in the scope of signatures.
const service = "s3"

// Service is S3 in one region, for one set of credentials. It is safe for concurrent use.
type Service struct {
	HTTP        awssdk.HTTPClient
	Credentials awssdk.CredentialsProvider
	Refresh     func() // makes Credentials log in again; nil without sessions
	Region      string
	// Suffix is the domain after the region, e.g. "amazonaws.com".
	Suffix string
	// Endpoint is a URL that serves all buckets, in place of those of AWS; empty is AWS.
	Endpoint string
	Now      func() time.Time
}

// Bucket is a bucket of a Service.
type Bucket struct {
	Service
	Name string
	// Owner is the AWS account that must have the bucket, 12 digits; empty is any.
	Owner string
}

// url returns the URL of an object, or with an empty key of the bucket.
func (b Bucket) url(key string, query url.Values) *url.URL {
	base := fmt.Sprintf("https://%s.%s.%s.%s", b.Name, service, b.Region, b.Suffix)
	if b.Endpoint != "" {
		base = strings.TrimSuffix(b.Endpoint, "/") + "/" + b.Name
	}
	u, err := url.Parse(base)
	if err != nil {
		u = &url.URL{} // a request to it fails
	}
	u.Path += "/" + key
	u.RawPath = escapePath(u.Path)
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return u
}

// escapePath escapes all but the characters that signatures leave alone.
func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = strings.ReplaceAll(url.QueryEscape(parts[i]), "+", "%20")
	}
	return strings.Join(parts, "/")
}

// request is one call.
type request struct {
	op, method, key string
	query           url.Values
	header          map[string]string
	body            []byte
}

// answer is a success.
type answer struct {
	header http.Header
	body   []byte
}

// do makes a call. A session that has expired is opened again, once.
func (b Bucket) do(ctx context.Context, r request) (answer, *cloud.Error) {
	if e := driverkit.NotSent(ctx, r.op); e != nil {
		return answer{}, e
	}
	out, e := b.send(ctx, r)
	if e == nil || b.Refresh == nil || !slices.Contains([]string{"ExpiredToken", "RequestExpired"}, e.Reason) {
		return out, e
	}
	b.Refresh()
	return b.send(ctx, r)
}

func (b Bucket) send(ctx context.Context, r request) (answer, *cloud.Error) {
	signed, err := b.sign(ctx, r)
	if err != nil {
		return answer{}, noCredentials(ctx, r.op, err)
	}
	response, err := b.HTTP.Do(signed)
	if err != nil {
		return answer{}, driverkit.NoAnswer(ctx, r.op, err)
	}
	defer func() { _ = response.Body.Close() }()
	const most = 8 << 20 // a page of keys is smaller
	body, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return answer{}, driverkit.NoAnswer(ctx, r.op, err)
	}
	if response.StatusCode/100 != http.StatusOK/100 {
		return answer{}, refusal(r.op, response, body, b.Now())
	}
	return answer{response.Header, body}, nil
}

// noCredentials is the error of a call that could not be signed.
func noCredentials(ctx context.Context, op string, err error) *cloud.Error {
	if ctx.Err() != nil {
		return driverkit.NoAnswer(ctx, op, err)
	}
	return cloud.Errorf(cloud.Denied, op, "NoCredentials",
		"no credentials could be had; put an access key into the Secret or see to the identity of the manager")
}

// sign returns a request with its signature in the header.
func (b Bucket) sign(ctx context.Context, r request) (*http.Request, error) {
	credentials, err := b.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	out, err := http.NewRequestWithContext(ctx, r.method, b.url(r.key, r.query).String(), body)
	if err != nil {
		return nil, errors.New("the endpoint of S3 is no URL")
	}
	for name, value := range r.header {
		out.Header.Set(name, value)
	}
	if b.Owner != "" {
		out.Header.Set("X-Amz-Expected-Bucket-Owner", b.Owner)
	}
	sum := sha256.Sum256(r.body)
	hash := hex.EncodeToString(sum[:])
	out.Header.Set("X-Amz-Content-Sha256", hash)
	return out, signer().SignHTTP(ctx, credentials, out, hash, service, b.Region, b.Now())
}

// signer signs paths as they are sent, as S3 wants it.
func signer() *v4.Signer {
	return v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
}

// Presign returns a URL that fetches an object, for that long after at and no longer than
// the session lasts that signs it, whose end it returns; zero is never. The URL is a secret.
// For equal arguments and credentials it is the same.
func (b Bucket) Presign(ctx context.Context, op, key string, at time.Time, expiry time.Duration) (signed string,
	sessionEnds time.Time, failed *cloud.Error,
) {
	credentials, err := b.Credentials.Retrieve(ctx)
	if err != nil {
		return "", time.Time{}, noCredentials(ctx, op, err)
	}
	u := b.url(key, url.Values{"X-Amz-Expires": {fmt.Sprint(int(expiry.Seconds()))}})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err == nil {
		signed, _, err = signer().PresignHTTP(ctx, credentials, r, "UNSIGNED-PAYLOAD", service, b.Region, at)
	}
	if err != nil {
		return "", time.Time{}, cloud.Errorf(cloud.Unknown, op, "NotSigned", "a URL of bucket %s cannot be signed", b.Name)
	}
	if credentials.CanExpire {
		sessionEnds = credentials.Expires
	}
	return signed, sessionEnds, nil
}
