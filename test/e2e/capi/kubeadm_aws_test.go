package capi

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/s3test"

	"github.com/capmcm/cluster-api-provider-mcm/test/e2e/capi/guests"
)

// The images with kubeadm of both versions.
const (
	amiOld = "ami-1"
	amiNew = "ami-2"

	awsBoot    = 300 * time.Millisecond
	bootBucket = "example-boot-data"
)

// amazon is EC2 with Elastic Load Balancing, and S3.
type amazon struct {
	ec2       *ec2test.Cloud
	s3        *s3test.Store
	endpoints map[string]string // by what the SDK calls the service in variables
}

func newAmazon(t *testing.T) *amazon {
	t.Helper()
	s := ec2test.DefaultSettings()
	s.Boot, s.Shutdown, s.Settle = awsBoot, awsBoot, 500*time.Millisecond
	s.Subnets["subnet-c1"] = ec2test.Subnet{Zone: "eu-west-1c", Free: -1}
	s.Profiles = append(s.Profiles, "control-plane")
	a := &amazon{
		ec2: ec2test.New(s, nil),
		s3: s3test.New(s3test.Settings{
			Region: s.Region, PageSize: 100, Accounts: map[string]s3test.Account{ec2test.KeyID: {Secret: ec2test.SecretKey}},
			Buckets: map[string]s3test.Bucket{bootBucket: {}},
		}, nil),
	}
	ec2, s3 := httptest.NewServer(a.ec2), httptest.NewServer(a.s3)
	t.Cleanup(ec2.Close)
	t.Cleanup(s3.Close)
	a.endpoints = map[string]string{"EC2": ec2.URL, "ELASTIC_LOAD_BALANCING_V2": ec2.URL, "S3": s3.URL}
	return a
}

// env are the variables with which the SDK, and our manager, take another endpoint.
func (a *amazon) env() []string {
	var env []string
	for service, url := range a.endpoints {
		env = append(env, "AWS_ENDPOINT_URL_"+service+"="+url)
	}
	return env
}

// Variables are those of flavor aws.
func (a *amazon) Variables() map[string]string {
	return map[string]string{
		"CONTROL_PLANE_ZONE_1": "eu-west-1a", "CONTROL_PLANE_ZONE_2": "eu-west-1b", "CONTROL_PLANE_ZONE_3": "eu-west-1c",
		"AWS_CONTROL_PLANE_SUBNET_ID_1": "subnet-a1", "AWS_CONTROL_PLANE_SUBNET_ID_2": "subnet-b1",
		"AWS_CONTROL_PLANE_SUBNET_ID_3": "subnet-c1", "AWS_CONTROL_PLANE_SECURITY_GROUP_ID": "sg-2",
		"AWS_CONTROL_PLANE_IAM_INSTANCE_PROFILE": "control-plane", "AWS_BOOT_DATA_BUCKET": bootBucket,
		"AWS_API_SERVER_TARGET_GROUP_ARN": ec2test.GroupAPIServer,
		"AWS_REGION":                      "eu-west-1",
		"AWS_AMI":                         amiOld, "AWS_SSH_KEY_NAME": "a-key", "AWS_SUBNET_ID": "subnet-a1",
		"AWS_SECURITY_GROUP_ID": "sg-1", "AWS_IAM_INSTANCE_PROFILE": "nodes",
		"AWS_ACCESS_KEY_ID": ec2test.KeyID, "AWS_SECRET_ACCESS_KEY": ec2test.SecretKey,
	}
}

// VMs returns the instances that are not gone.
func (a *amazon) VMs(context.Context) ([]guests.VM, error) {
	versions := map[string]string{amiOld: oldKubernetes, amiNew: newKubernetes}
	var vms []guests.VM
	for _, r := range a.ec2.Ledger() {
		if r.Kind != ec2test.KindInstance {
			continue
		}
		// What EC2's metadata service says, by which the cloud controller manager looks for nodes.
		name := "ip-" + strings.ReplaceAll(r.IP, ".", "-") + ".eu-west-1.compute.internal"
		vms = append(vms, guests.VM{
			ID: r.ID, Name: r.Tags["Name"], Version: versions[r.Input.Get("ImageId")], NodeName: name,
			ProviderID: "aws:///" + r.Zone + "/" + r.ID,
			Running:    r.Terminated.IsZero() && !r.Stopped && time.Since(r.Made) >= awsBoot,
			Metadata: guests.Metadata{
				InstanceID: r.ID, Hostname: name, Region: "eu-west-1", Zone: r.Zone,
				Source: map[string]string{"instance_id": r.ID, "local_hostname": name, "hostname": name},
			},
		})
	}
	return vms, nil
}

// UserData returns what an instance boots with: it fetches what its user data names, as
// cloud-init does. That of the control plane names something and has no keys itself.
func (a *amazon) UserData(_ context.Context, id string) ([]byte, error) {
	r, there := a.ec2.Look(id)
	if !there {
		return nil, fmt.Errorf("there is no instance %s", id)
	}
	_, controlPlane := r.Tags["kubernetes.io/role/control-plane"]
	if included := strings.HasPrefix(string(r.UserData), "#include-once\n"); included != controlPlane {
		return nil, fmt.Errorf("instance %s of the control plane: %v, user data is fetched: %v", id, controlPlane, included)
	}
	return a.s3.Guest(r.UserData)
}

// Members returns the instances in the target group.
func (a *amazon) Members(context.Context) ([]string, error) {
	var ids []string
	for _, target := range a.ec2.Targets(ec2test.GroupAPIServer) {
		if target.Drained.IsZero() && target.Port == apiPort {
			ids = append(ids, target.Instance)
		}
	}
	return ids, nil
}

// Settled: the target group has the control plane's instances, and the bucket nothing any more.
func (a *amazon) Settled(ctx context.Context, controlPlane []string) error {
	if objects := a.s3.Objects(); len(objects) > 0 {
		return fmt.Errorf("boot data of machines that have joined is still there: %s", objects[0].Key)
	}
	return membersAre(ctx, a, controlPlane)
}

// Left names instances, volumes, interfaces, objects and targets.
func (a *amazon) Left(context.Context) ([]string, error) {
	var left []string
	for _, r := range a.ec2.Ledger() {
		left = append(left, r.Kind+" "+r.ID)
	}
	for _, o := range a.s3.Objects() {
		left = append(left, "object "+o.Key)
	}
	for _, target := range a.ec2.Targets(ec2test.GroupAPIServer) {
		left = append(left, "target "+target.Instance)
	}
	return left, nil
}
