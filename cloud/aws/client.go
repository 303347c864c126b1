package aws

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/elb"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/s3"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// connection is how an account calls AWS.
type connection struct {
	ec2       *ec2.Client
	s3        s3.Service
	balancers elb.Client
	sts       *sts.Client // for the name of the account
	refresh   func()      // makes the next call log in again; nil where there is no session
}

// connect returns the connection of a class.
func (o Options) connect(ctx context.Context, s *spec, who login) (connection, error) {
	load := []func(*config.LoadOptions) error{
		config.WithRegion(s.Region),
		config.WithRetryer(func() awssdk.Retryer { return awssdk.NopRetryer{} }), // who calls decides when to call again
	}
	if who.static() {
		load = append(load, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(who.keyID, who.key, "")))
	} else if !who.none() {
		// A chain is not asked for what the Secret says, not even for a moment.
		load = append(load, config.WithCredentialsProvider(awssdk.AnonymousCredentials{}))
	}
	cfg, err := config.LoadDefaultConfig(context.WithoutCancel(ctx), load...)
	if err != nil {
		return connection{}, errors.New("it cannot be read") // its text may quote files
	}
	if own := o.httpClient(); own != nil {
		cfg.HTTPClient = own // not earlier: the SDK wants to add certificates of the environment to one of its own
	}
	var c connection
	cfg.Credentials, c.refresh = s.session(cfg, who, o.judge().files)
	c.ec2 = ec2.NewFromConfig(cfg, func(e *ec2.Options) {
		e.HTTPClient = checked{e.HTTPClient}
		if o.Endpoint != "" {
			e.BaseEndpoint = awssdk.String(o.Endpoint)
		}
	})
	c.sts = sts.NewFromConfig(cfg, func(e *sts.Options) {
		e.HTTPClient = checked{e.HTTPClient}
		if o.IdentityEndpoint != "" {
			e.BaseEndpoint = awssdk.String(o.IdentityEndpoint)
		}
	})
	c.s3 = s3.Service{
		HTTP: cfg.HTTPClient, Credentials: cfg.Credentials, Refresh: c.refresh, Region: s.Region,
		Suffix: dnsSuffix(ctx, s.Region), Now: o.Now,
		Endpoint: cmp.Or(o.S3Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), awssdk.ToString(cfg.BaseEndpoint)),
	}
	c.balancers = elb.Client{
		HTTP: cfg.HTTPClient, Credentials: cfg.Credentials, Region: s.Region, Suffix: c.s3.Suffix,
		Endpoint: cmp.Or(o.BalancerEndpoint, os.Getenv("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2"),
			awssdk.ToString(cfg.BaseEndpoint)),
	}
	return c, nil
}

// dnsSuffix returns the domain of the services of a region, which depends on its partition:
// the SDK knows it from the name of EC2.
func dnsSuffix(ctx context.Context, region string) string {
	const usual = "amazonaws.com"
	e, err := ec2.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, ec2.EndpointParameters{Region: &region})
	if err != nil {
		return usual
	}
	suffix, ok := strings.CutPrefix(e.URI.Host, "ec2."+region+".")
	if !ok {
		return usual
	}
	return suffix
}

// session returns the credentials of the account, those of cfg where they need not be
// exchanged, and what makes them log in again.
func (s *spec) session(cfg awssdk.Config, who login, files driverkit.TokenFiles) (creds awssdk.CredentialsProvider,
	refresh func(),
) {
	if !who.static() && !who.none() {
		cfg.Credentials = awssdk.NewCredentialsCache(stscreds.NewWebIdentityRoleProvider(
			sts.NewFromConfig(cfg), who.role, identityToken{files, who.tokenFile},
			func(w *stscreds.WebIdentityRoleOptions) { w.RoleSessionName = sessionPrefix },
		))
	}
	if s.AssumeRole != nil {
		cfg.Credentials = s.AssumeRole.assume(cfg)
	}
	if cache, ok := cfg.Credentials.(*awssdk.CredentialsCache); ok && (s.AssumeRole != nil || !who.static()) {
		refresh = cache.Invalidate
	}
	return cfg.Credentials, refresh
}

// identityToken is the token of a file that the Secret names. It is read again for each session, because it
// is renewed.
type identityToken struct {
	files driverkit.TokenFiles
	path  string
}

// GetIdentityToken returns the token, or an error of code Denied.
func (t identityToken) GetIdentityToken() ([]byte, error) {
	token, err := t.files.Read(tokenEntry, t.path)
	if err != nil {
		return nil, cloud.Errorf(cloud.Denied, "log in", "NoToken", "%w", err)
	}
	return token, nil
}

// httpClient returns what the SDK calls with; nil leaves it to the SDK.
func (o Options) httpClient() awssdk.HTTPClient {
	if o.Transport == nil {
		return nil
	}
	return &http.Client{
		Transport: o.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // as the SDK's own: a signature holds for one host
		},
	}
}

// ask makes a call of the SDK.
func ask[In, Out any](ctx context.Context, a *account, op string,
	call func(context.Context, *In, ...func(*ec2.Options)) (*Out, error), in *In,
) (out *Out, failed *cloud.Error) {
	failed = a.send(ctx, op, func() (err error) { out, err = call(ctx, in); return err })
	return out, failed
}

// send makes a call. A session that has expired is opened again, once.
func (a *account) send(ctx context.Context, op string, call func() error) *cloud.Error {
	if e := driverkit.NotSent(ctx, op); e != nil {
		return e
	}
	err := call()
	if err == nil {
		return nil
	}
	e := refusal(ctx, op, err, a.now())
	ended := []string{codeExpiredToken, "ExpiredTokenException", "RequestExpired"}
	if a.refresh == nil || !slices.Contains(ended, e.Reason) {
		return e
	}
	a.refresh()
	if err := call(); err != nil {
		return refusal(ctx, op, err, a.now())
	}
	return nil
}

// errNoXML is a success that says nothing, which the SDK takes for one that has
// found nothing.
var errNoXML = errors.New("the answer is empty or no XML")

// beginsXML fails unless the first byte of body that is no white space begins an
// element, which is left to be read.
func beginsXML(body *bufio.Reader) error {
	for {
		b, err := body.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return errNoXML
		case err != nil:
			return err
		case b == '<':
			return body.UnreadByte()
		case !strings.ContainsRune(" \t\r\n", rune(b)):
			return errNoXML
		}
	}
}

// checked is an HTTP client that does not believe such answers.
type checked struct{ next awssdk.HTTPClient }

// Do sends a request. It fails when the answer says success without any XML.
//
// The SDK closes the body of a request when the answer begins, and its WriteTo then
// fails. A transport that still looks whether the body has ended takes that for a
// failure of the connection, and cuts the answer off; Read does not fail.
func (c checked) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	resp, err := c.next.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	body := bufio.NewReader(resp.Body)
	if err := beginsXML(body); err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{body, resp.Body}
	return resp, nil
}
