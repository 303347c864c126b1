package aws

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// connect returns a client of EC2 for a class, and what makes it log in again;
// refresh is nil where there is no session.
func (o Options) connect(ctx context.Context, s *spec, who login) (client *ec2.Client, refresh func(),
	err error,
) {
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
		return nil, nil, errors.New("it cannot be read") // its text may quote files
	}
	if own := o.httpClient(); own != nil {
		cfg.HTTPClient = own // not earlier: the SDK wants to add certificates of the environment to one of its own
	}
	cfg.Credentials, refresh = s.session(cfg, who)
	return ec2.NewFromConfig(cfg, func(e *ec2.Options) {
		e.HTTPClient = checked{e.HTTPClient}
		if o.Endpoint != "" {
			e.BaseEndpoint = awssdk.String(o.Endpoint)
		}
	}), refresh, nil
}

// session returns the credentials of the account, those of cfg where they need not be
// exchanged, and what makes them log in again.
func (s *spec) session(cfg awssdk.Config, who login) (creds awssdk.CredentialsProvider, refresh func()) {
	if !who.static() && !who.none() {
		cfg.Credentials = awssdk.NewCredentialsCache(stscreds.NewWebIdentityRoleProvider(
			sts.NewFromConfig(cfg), who.role, stscreds.IdentityTokenFile(who.tokenFile),
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

// httpClient returns what the SDK calls with; nil leaves it to the SDK.
func (o Options) httpClient() awssdk.HTTPClient {
	if o.Transport == nil {
		return nil
	}
	return &http.Client{Transport: o.Transport}
}

// ask makes a call of the SDK. A session that has expired is opened again, once.
func ask[In, Out any](ctx context.Context, a *account, op string,
	call func(context.Context, *In, ...func(*ec2.Options)) (*Out, error), in *In,
) (*Out, *cloud.Error) {
	if e := driverkit.NotSent(ctx, op); e != nil {
		return nil, e
	}
	out, err := call(ctx, in)
	if err == nil {
		return out, nil
	}
	e := refusal(ctx, op, err, a.now())
	ended := []string{codeExpiredToken, "ExpiredTokenException", "RequestExpired"}
	if a.refresh == nil || !slices.Contains(ended, e.Reason) {
		return nil, e
	}
	a.refresh()
	if out, err = call(ctx, in); err != nil {
		return nil, refusal(ctx, op, err, a.now())
	}
	return out, nil
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
