// Package elb calls Elastic Load Balancing version 2, as far as the targets of target groups
// go. It speaks the service's query protocol with the SDK's signer, since three calls are not
// worth the SDK's module for the whole service.
package elb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	version = "2015-12-01"           // of the API
	service = "elasticloadbalancing" // as requests are signed
	bodyMax = 1 << 20                // bytes of an answer that are read
)

// Client calls the service in one region. It is safe for concurrent use.
type Client struct {
	HTTP        awssdk.HTTPClient // nil is the default client
	Credentials awssdk.CredentialsProvider
	Region      string
	Suffix      string // domain of the region's services
	Endpoint    string // URL; empty is Amazon's
}

// A Target is a port of an instance in a target group.
type Target struct {
	Group    string // ARN
	Instance string
	Port     int
}

// Health is what a target group says about a target.
type Health struct {
	State  string // initial, healthy, unhealthy, unused, draining, unavailable …
	Reason string // Target.NotRegistered …
}

// Registered reports whether the target is in its group, also while it drains.
func (h Health) Registered() bool { return h.Reason != "Target.NotRegistered" }

// Draining reports whether the target gets no new requests, and open connections are kept.
func (h Health) Draining() bool { return h.State == "draining" }

// Register adds a target, whose instance has to run. One that is there stays.
func (c Client) Register(ctx context.Context, t Target) error {
	return c.call(ctx, "RegisterTargets", t, nil)
}

// Deregister removes a target, which drains first. One that is not there is no error.
func (c Client) Deregister(ctx context.Context, t Target) error {
	return c.call(ctx, "DeregisterTargets", t, nil)
}

// Health returns the health of a target.
func (c Client) Health(ctx context.Context, t Target) (Health, error) {
	var out struct {
		Targets []Health `xml:"DescribeTargetHealthResult>TargetHealthDescriptions>member>TargetHealth"`
	}
	if err := c.call(ctx, "DescribeTargetHealth", t, &out); err != nil {
		return Health{}, err
	}
	if len(out.Targets) != 1 {
		return Health{}, fmt.Errorf("the answer has the health of %d targets, want one", len(out.Targets))
	}
	return out.Targets[0], nil
}

// call makes one call about a target. An error of the service has the types of the SDK's.
func (c Client) call(ctx context.Context, action string, t Target, out any) error {
	r, err := c.request(ctx, url.Values{
		"Action": {action}, "Version": {version}, "TargetGroupArn": {t.Group},
		"Targets.member.1.Id": {t.Instance}, "Targets.member.1.Port": {strconv.Itoa(t.Port)},
	}.Encode())
	if err != nil {
		return err
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, bodyMax))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(resp, text)
	}
	answer := struct {
		XMLName xml.Name
		Inner   []byte `xml:",innerxml"`
	}{}
	if err := xml.Unmarshal(text, &answer); err != nil || answer.XMLName.Local != action+"Response" {
		return errors.New("the answer is not that of " + action)
	}
	if out == nil {
		return nil
	}
	return xml.Unmarshal(text, out)
}

// request returns a signed request.
func (c Client) request(ctx context.Context, body string) (*http.Request, error) {
	endpoint := c.Endpoint
	if endpoint == "" {
		endpoint = "https://" + service + "." + c.Region + "." + c.Suffix
	}
	endpoint = strings.TrimRight(endpoint, "/") + "/"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	who, err := c.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("get identity: %w", err) // as the SDK says it
	}
	sum := sha256.Sum256([]byte(body))
	err = v4.NewSigner().SignHTTP(ctx, who, r, hex.EncodeToString(sum[:]), service, c.Region, time.Now())
	if err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	return r, nil
}

// refusal is the error that the service answered.
func refusal(resp *http.Response, text []byte) error {
	var said struct {
		Code    string `xml:"Error>Code"`
		Message string `xml:"Error>Message"`
	}
	err := errors.New("the answer has no error code")
	if xml.Unmarshal(text, &said) == nil && said.Code != "" {
		err = &smithy.GenericAPIError{Code: said.Code, Message: said.Message}
	}
	return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: resp}, Err: err}
}
