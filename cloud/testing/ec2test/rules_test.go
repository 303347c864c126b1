package ec2test_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

// post sends a request as it is and returns the code of the answer, empty on success.
func post(t *testing.T, c *ec2test.Cloud, form url.Values) string {
	t.Helper()
	_, code, _ := strings.Cut(string(send(t, c, form)), "<Code>")
	code, _, _ = strings.Cut(code, "</Code>")
	return code
}

// send sends a request as it is and returns the answer.
func send(t *testing.T, c *ec2test.Cloud, form url.Values) []byte {
	t.Helper()
	body := form.Encode()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://ec2.invalid/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	sum := sha256.Sum256([]byte(body))
	key := awssdk.Credentials{AccessKeyID: ec2test.KeyID, SecretAccessKey: ec2test.SecretKey}
	if err := v4.NewSigner().SignHTTP(t.Context(), key, r, hex.EncodeToString(sum[:]), "ec2", "eu-west-1",
		time.Now()); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	answer, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// form is a request from pairs of names and values.
func form(action string, pairs ...string) url.Values {
	f := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for i := 0; i < len(pairs); i += 2 {
		f.Set(pairs[i], pairs[i+1])
	}
	return f
}

// launch is a request for an instance, changed by pairs.
func launch(pairs ...string) url.Values {
	f := form("RunInstances", "ImageId", "ami-1", "InstanceType", "m5.large", "MinCount", "1", "MaxCount", "1",
		"NetworkInterface.1.DeviceIndex", "0", "NetworkInterface.1.SubnetId", "subnet-a1",
		"BlockDeviceMapping.1.DeviceName", "/dev/xvda", "BlockDeviceMapping.1.Ebs.VolumeType", "gp3")
	maps.Copy(f, form("RunInstances", pairs...))
	return f
}

// TestRefusals: what EC2 refuses is refused, with its code.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const tag, device, second = "TagSpecification.1.Tag.", "BlockDeviceMapping.1.Ebs.", "NetworkInterface.2."
	tagged := func(pairs ...string) url.Values {
		return launch(append([]string{"TagSpecification.1.ResourceType", "instance"}, pairs...)...)
	}
	many := tagged()
	for i := range 51 {
		many.Set(fmt.Sprintf("%s%d.Key", tag, i+1), fmt.Sprint(i))
	}
	values := form("DescribeInstances", "Filter.1.Name", "tag-key", "Filter.1.Value.1", "k", "Filter.2.Name", "tag:Name")
	for i := range 200 {
		values.Set(fmt.Sprintf("Filter.2.Value.%d", i+1), fmt.Sprint(i))
	}
	without := launch()
	without.Del("MaxCount")
	old := launch()
	old.Set("Version", "2010-01-01")
	const invalid, combination, none = "InvalidParameterValue", "InvalidParameterCombination", "UnknownParameter"
	cases := map[string]struct {
		form url.Values
		want string
	}{
		"Good":         {launch(), ""},
		"GoodTags":     {tagged(tag+"1.Key", "a/b: ü", tag+"1.Value", ""), ""},
		"Version":      {old, "NoSuchVersion"},
		"Action":       {form("RunInstance"), "InvalidAction"},
		"Unknown":      {launch("ImageID", "ami-1"), none},
		"UnknownBelow": {launch("NetworkInterface.1.Subnet", "subnet-a1"), none},
		"PathOfTheSDK": {launch("NetworkInterface.1.Groups.1", "sg-1"), none},
		"NoList":       {launch("ImageId.1", "ami-1"), none},
		"NoElement":    {launch("NetworkInterface.one.SubnetId", "subnet-a1"), none},
		"Gap":          {launch("NetworkInterface.3.SubnetId", "subnet-a1"), none},
		"Missing":      {without, "MissingParameter"},
		"MissingBelow": {form("TerminateInstances"), "MissingParameter"},
		"NoNumber":     {launch("MaxCount", "one"), invalid},
		"LargeNumber":  {launch("MaxCount", "3000000000"), invalid},
		"NoBoolean":    {launch("EbsOptimized", "yes"), invalid},
		"Enum":         {launch("InstanceMarketOptions.MarketType", "auction"), invalid},
		"NewEnum":      {launch("InstanceMarketOptions.MarketType", "interruptible-capacity-reservation"), ""},
		"NewPreference": {
			launch("CapacityReservationSpecification.CapacityReservationPreference", "capacity-reservations-only"), "",
		},
		"NegativeCount": {launch("NetworkInterface.1.Ipv6AddressCount", "-1"), invalid},
		"NegativePrefixes": {
			form("AssignIpv6Addresses", "NetworkInterfaceId", "eni-0", "Ipv6PrefixCount", "-1"), invalid,
		},
		"Range":           {form("DescribeSubnets", "MaxResults", "4"), invalid},
		"Token":           {launch("ClientToken", strings.Repeat("x", 65)), invalid},
		"TokenAlphabet":   {launch("ClientToken", "ü"), invalid},
		"TagKey":          {tagged(tag+"1.Key", strings.Repeat("k", 128)), invalid},
		"TagValue":        {tagged(tag+"1.Key", "k", tag+"1.Value", strings.Repeat("v", 257)), invalid},
		"TagReserved":     {tagged(tag+"1.Key", "aws:k"), invalid},
		"TagTwice":        {tagged(tag+"1.Key", "k", tag+"2.Key", "k"), invalid},
		"Tags":            {many, "TagLimitExceeded"},
		"TagOf":           {launch("TagSpecification.1.ResourceType", "subnet", tag+"1.Key", "k"), invalid},
		"Filter":          {form("DescribeInstances", "Filter.1.Name", "color", "Filter.1.Value.1", "red"), invalid},
		"FilterNoValue":   {form("DescribeInstances", "Filter.1.Name", "tag-key"), invalid},
		"FilterValues":    {values, "FilterLimitExceeded"},
		"PageOfIDs":       {form("DescribeInstances", "InstanceId.1", "i-01234567", "MaxResults", "5"), combination},
		"ID":              {form("TerminateInstances", "InstanceId.1", "i-x"), "InvalidInstanceID.Malformed"},
		"OtherZone":       {launch("Placement.AvailabilityZone", "eu-west-1b"), invalid},
		"IOPS":            {launch(device+"VolumeType", "io2"), "MissingParameter"},
		"NoIOPS":          {launch(device+"VolumeType", "gp2", device+"Iops", "3"), combination},
		"Key":             {launch(device+"KmsKeyId", "k"), "InvalidParameterDependency"},
		"DeviceTwice":     {launch("BlockDeviceMapping.2.DeviceName", "/dev/xvda"), "InvalidBlockDeviceMapping"},
		"InterfaceTwice":  {launch(second+"DeviceIndex", "0", second+"SubnetId", "subnet-a1"), combination},
		"InterfacesApart": {launch(second+"DeviceIndex", "1", second+"SubnetId", "subnet-b1"), combination},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := ec2test.New(ec2test.DefaultSettings(), nil)
			if got := post(t, c, tc.form); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if tc.want != "" && len(c.Ledger()) > 0 {
				t.Error("a request that was refused made something")
			}
		})
	}
}

// TestTokenOfAZone: EC2 keeps the tokens of RunInstances for each zone apart.
func TestTokenOfAZone(t *testing.T) {
	t.Parallel()
	c := ec2test.New(ec2test.DefaultSettings(), nil)
	a, b := launch("ClientToken", "t"), launch("ClientToken", "t", "NetworkInterface.1.SubnetId", "subnet-b1")
	for _, f := range []url.Values{a, b, a, b} {
		if code := post(t, c, f); code != "" {
			t.Fatal(code)
		}
	}
	vms := 0
	for _, r := range c.Ledger() {
		if r.Kind == ec2test.KindInstance {
			vms++
		}
	}
	if vms != 2 {
		t.Errorf("%d instances, want one in each zone", vms)
	}
	if code := post(t, c, launch("ClientToken", "t", "KeyName", "a-key")); code != "IdempotentParameterMismatch" {
		t.Errorf("other parameters in the same zone: %q", code)
	}
}
