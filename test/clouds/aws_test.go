package clouds

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

const ec2Boot = 300 * time.Millisecond

func ec2Settings() ec2test.Settings {
	s := ec2test.DefaultSettings()
	s.Boot, s.Shutdown, s.Settle = ec2Boot, ec2Boot, 500*time.Millisecond
	s.Types["m5.xlarge"] = ec2test.InstanceType{CPU: 4, MemoryMiB: 16384, Architecture: "x86_64"}
	return s
}

// awsCloud is the EC2 endpoint.
type awsCloud struct{}

func startAWS(*testing.T) backend { return awsCloud{} }

func awsTypes() []string { return []string{"m5.large", "m5.xlarge"} }

func (awsCloud) Class(generation int) class {
	c := class{InstanceType: awsTypes()[generation], Region: "eu-west-1", Zone: "eu-west-1a"}
	c.Spec = map[string]any{
		"ami": "ami-1", "region": c.Region, "machineType": c.InstanceType, "iam": map[string]any{"name": "nodes"},
		"blockDevices":      []any{map[string]any{"ebs": map[string]any{"volumeType": "gp3", "volumeSize": 20}}},
		"networkInterfaces": []any{map[string]any{"subnetID": "subnet-a1", "securityGroupIDs": []string{"sg-1"}}},
		"tags":              map[string]string{"kubernetes.io/cluster/clouds": "1", "kubernetes.io/role/node": "1"},
	}
	return c
}

func (awsCloud) Credentials() map[string][]byte {
	return map[string][]byte{
		"providerAccessKeyId":     []byte(ec2test.KeyID),
		"providerSecretAccessKey": []byte(ec2test.SecretKey),
	}
}

func (awsCloud) VMs(context.Context) ([]vm, error) {
	var vms []vm
	for _, r := range ec2.Ledger() {
		if r.Kind != ec2test.KindInstance || !r.Terminated.IsZero() || r.Stopped || time.Since(r.Made) < ec2Boot {
			continue
		}
		generation := 0
		if r.Type == awsTypes()[1] {
			generation = 1
		}
		vms = append(vms, vm{
			ID: r.ID, Generation: generation, UserData: r.UserData, Address: r.IP,
			NodeName:   "ip-" + strings.ReplaceAll(r.IP, ".", "-") + ".eu-west-1.compute.internal",
			ProviderID: "aws:///" + r.Zone + "/" + r.ID, MCM: "aws:///eu-west-1/" + r.ID,
		})
	}
	return vms, nil
}

func (awsCloud) Kill(_ context.Context, id string) error {
	ec2.End(id, "Server.SpotInstanceTermination", "taken away")
	return nil
}

func (awsCloud) Ledger(context.Context) ([]string, error) {
	var all []string
	for _, r := range ec2.Ledger() {
		all = append(all, r.Kind+" "+r.ID)
	}
	return all, nil
}
