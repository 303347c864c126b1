package aws_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

// samples are classes as MCM's users have them.
func samples() []cloudtest.Sample {
	defaulted := func(edits spec) []byte { return class("", edits).Spec }
	written := func(n spec, index int) spec {
		return edit(n, spec{"deleteOnTermination": true, "deviceIndex": index})
	}
	return []cloudtest.Sample{
		{Name: "smallest", Class: class("small", nil), Defaulted: defaulted(spec{
			"srcAndDstChecksEnabled": true, "blockDevices": []any{disk(spec{"deleteOnTermination": true})},
			"networkInterfaces": []any{written(nic(nil), 0)},
		})},
		{
			Name: "several interfaces", Class: class("nics", spec{"networkInterfaces": []any{
				nic(spec{"ipv6AddressCount": 1}),
				nic(nil),
			}}),
			Defaulted: defaulted(spec{"networkInterfaces": []any{
				written(nic(spec{"ipv6AddressCount": 1, "primaryIpv6": true}), 0), written(nic(nil), 1),
			}}),
		},
		{Name: "full", Class: class("full", full())},
		{
			Name: "with a version", Class: class("v", spec{"apiVersion": "mcm.gardener.cloud/v1alpha1"}),
			Defaulted: defaulted(nil),
		},
	}
}

// rules is the validation table.
func rules() []cloudtest.Rule {
	rule := func(reason string, edits spec, field string, severity cloud.Severity) cloudtest.Rule {
		text, _ := json.Marshal(edits)
		if field != "" {
			field = "providerSpec." + field
		}
		return cloudtest.Rule{
			Name: fmt.Sprintf("%s %s", field, text), Reason: reason, Class: class("rule", edits),
			Field: field, Severity: severity,
		}
	}
	disks := func(all ...any) spec { return spec{"blockDevices": all} }
	named := func(name string) spec { return edit(disk(nil), spec{"deviceName": name}) }
	nics := func(n spec) spec { return spec{"networkInterfaces": []any{nic(n)}} }
	part := func(field string, s spec) spec { return spec{field: s} }
	groups := func(all ...any) spec { return spec{"targetGroups": all} }
	group := func(arn string, port any) spec { return spec{"arn": arn, "port": port} }
	spot := func(market string, options spec) spec {
		return spec{"instanceMarketOptions": spec{"marketType": market, "spotOptions": options}}
	}
	subnets := func(all ...any) spec { return spec{"subnets": all} }
	tags := func(keys ...string) spec {
		all := spec{}
		for _, key := range keys {
			all[key] = "1"
		}
		return spec{"tags": all}
	}
	const create, all, warning = cloud.BlocksCreate, cloud.BlocksAll, cloud.Warning
	return []cloudtest.Rule{
		rule("a target group is another service's", groups(group(ec2test.GroupAPIServer, 6443)), "", 0),
		rule("requests go to the class's region", groups(group(
			strings.Replace(ec2test.GroupAPIServer, "eu-west-1", "us-east-1", 1), 1)), "targetGroups[0].arn",
			cloud.BlocksCreate),
		rule("an ARN has a form", groups(group("apiserver", 1)), "targetGroups[0].arn", cloud.BlocksCreate),
		rule("a port is needed", groups(spec{"arn": ec2test.GroupAPIServer}), "targetGroups[0].port", cloud.BlocksCreate),
		rule("one target is registered once", groups(group(ec2test.GroupAPIServer, 1), group(ec2test.GroupAPIServer, 1)),
			"targetGroups[1].arn", cloud.BlocksCreate),
		rule("the smallest spec", nil, "", 0),
		rule("every field", full(), "", 0),
		rule("MCM's validator allows none and its driver then fails", disks(), "", 0),
		rule("one device is the root device whatever its name", disks(named("anything")), "", 0),
		rule("MCM does not know it, EC2 does", disks(disk(spec{"volumeType": "io2", "iops": 100})), "", 0),
		rule("an ARN names a profile", spec{"iam": spec{"arn": "arn:aws:iam::123456789012:instance-profile/nodes"}}, "", 0),
		rule("the mark may stand anywhere in a key", tags("x/kubernetes.io/cluster/c1", "x/kubernetes.io/role/node"), "", 0),
		rule("an empty price is no highest price", spec{"spotPrice": ""}, "spotPrice", warning),
		rule("every call needs it", spec{"region": nil}, "region", all),
		rule("every call needs it", spec{"region": 1}, "region", all),
		rule("nothing is owned without", tags("kubernetes.io/role/node"), "tags", all),
		rule("nothing is owned without", tags("kubernetes.io/cluster/c1"), "tags", all),
		rule("a tag is a string", spec{"tags": spec{"kubernetes.io/cluster/c1": "1", "kubernetes.io/role/node": "1", "x": 1}},
			"tags[x]", create),
		rule("EC2 reserves it", tags("kubernetes.io/cluster/c1", "kubernetes.io/role/node", "AWS:x"), "tags[AWS:x]", create),
		rule("EC2 takes 127 characters", tags("kubernetes.io/cluster/c1", "kubernetes.io/role/node",
			strings.Repeat("ü", 128)), "tags["+strings.Repeat("ü", 128)+"]", create),
		rule("EC2 takes 256 characters", spec{"tags": spec{
			"kubernetes.io/cluster/c1": "1", "kubernetes.io/role/node": strings.Repeat("v", 257),
		}}, "tags[kubernetes.io/role/node]", create),
		rule("MCM overwrites it", tags("kubernetes.io/cluster/c1", "kubernetes.io/role/node", "Name"), "tags[Name]", warning),
		rule("required", spec{"ami": nil}, "ami", create),
		rule("required", spec{"machineType": " "}, "machineType", create),
		rule("exactly one", spec{"iam": nil}, "iam", create),
		rule("exactly one", spec{"iam": spec{"name": "a", "arn": "b"}}, "iam", create),
		rule("an object", spec{"iam": "nodes"}, "iam", create),
		rule("several devices need one root", disks(named("/dev/sdf"), named("/dev/sdg")), "blockDevices", create),
		rule("only one is the root", disks(named("/root"), named("/root")), "blockDevices", create),
		rule("names are unique", disks(named("/root"), named("/dev/sdf"), named("/dev/sdf")), "blockDevices[2].deviceName",
			create),
		rule("names are EC2's", disks(named("/root"), named("/dev/nvme1")), "blockDevices[1].deviceName", create),
		rule("names are EC2's", disks(named("/root"), named("/dev/xvdba")), "", 0),
		rule("required", disks(disk(spec{"volumeType": nil})), "blockDevices[0].ebs.volumeType", create),
		rule("one of EC2's", disks(disk(spec{"volumeType": "ssd"})), "blockDevices[0].ebs.volumeType", create),
		rule("positive", disks(disk(spec{"volumeSize": 0})), "blockDevices[0].ebs.volumeSize", create),
		rule("a whole number", disks(disk(spec{"volumeSize": "20"})), "blockDevices[0].ebs.volumeSize", create),
		rule("io1 needs it", disks(disk(spec{"volumeType": "io1"})), "blockDevices[0].ebs.iops", create),
		rule("positive", disks(disk(spec{"throughput": 0})), "blockDevices[0].ebs.throughput", create),
		rule("MCM does not send it", disks(disk(spec{"kmsKeyID": "k", "encrypted": true})), "blockDevices[0].ebs.kmsKeyID",
			warning),
		rule("MCM does not send it", disks(edit(disk(nil), spec{"noDevice": "x"})), "blockDevices[0].noDevice", warning),
		rule("a misspelt field is found", disks(disk(spec{"size": 1})), "blockDevices[0].ebs.size", warning),
		rule("at least one", spec{"networkInterfaces": []any{}}, "networkInterfaces", create),
		rule("at least one", spec{"networkInterfaces": nil}, "networkInterfaces", create),
		rule("an interface is an object", spec{"networkInterfaces": []any{"subnet-a1"}}, "networkInterfaces[0]", create),
		rule("required", nics(spec{"subnetID": nil}), "networkInterfaces[0].subnetID", create),
		rule("at least one", nics(spec{"securityGroupIDs": nil}), "networkInterfaces[0].securityGroupIDs", create),
		rule("not blank", nics(spec{"securityGroupIDs": []string{"sg-1", " "}}), "networkInterfaces[0].securityGroupIDs[1]",
			create),
		rule("a role of another account", part("assumeRole", spec{
			"arn": "arn:aws:iam::123456789012:role/path/machines", "externalID": "an:id",
		}), "", 0),
		rule("nothing can be called without", part("assumeRole", spec{"externalID": "id"}), "assumeRole.arn", all),
		rule("a user is no role", part("assumeRole", spec{"arn": "arn:aws:iam::123456789012:user/u"}), "assumeRole.arn", all),
		rule("STS refuses it", part("assumeRole", spec{
			"arn": "arn:aws:iam::123456789012:role/r", "externalID": "a b",
		}), "assumeRole.externalID", all),
		rule("a role is an object", spec{"assumeRole": "r"}, "assumeRole", all),
		rule("one subnet for each zone", zoned(), "", 0),
		rule("required", subnets(spec{"subnetID": "subnet-a1"}), "subnets[0].zone", create),
		rule("required", subnets(spec{"zone": "eu-west-1a"}), "subnets[0].subnetID", create),
		rule("a subnet is an object", spec{"subnets": []any{"subnet-a1"}}, "subnets[0]", create),
		rule("one for each zone", subnets(spec{"zone": "eu-west-1a", "subnetID": "subnet-a1"},
			spec{"zone": "eu-west-1a", "subnetID": "subnet-a2"}), "subnets[1].zone", create),
		rule("its zone is unknown", subnets(spec{"zone": "eu-west-1b", "subnetID": "subnet-b1"}),
			"networkInterfaces[0].subnetID", create),
		rule("an instance is in one zone", edit(zoned(), spec{"networkInterfaces": []any{
			nic(nil), nic(spec{"subnetID": "subnet-b1"}),
		}}), "networkInterfaces[1].subnetID", create),
		rule("one of EC2's", nics(spec{"interfaceType": "trunk"}), "networkInterfaces[0].interfaceType", create),
		rule("not negative", nics(spec{"networkCardIndex": -1}), "networkInterfaces[0].networkCardIndex", create),
		rule("not negative", nics(spec{"deviceIndex": -1}), "networkInterfaces[0].deviceIndex", create),
		rule("it is only used with a count", nics(spec{"primaryIpv6": true}), "networkInterfaces[0].primaryIpv6", warning),
		rule("one of EC2's", part("instanceMarketOptions", spec{"marketType": "auction"}), "instanceMarketOptions.marketType",
			create),
		rule("kept and stopped", keptSpot(), "", 0),
		rule("another market has no spot options", spot("capacity-block", spec{"maxPrice": "1"}),
			"instanceMarketOptions.spotOptions", create),
		rule("a price", spot("spot", spec{"maxPrice": "$1"}), "instanceMarketOptions.spotOptions.maxPrice", create),
		rule("one of EC2's", spot("spot", spec{"spotInstanceType": "always"}),
			"instanceMarketOptions.spotOptions.spotInstanceType", create),
		rule("EC2 would launch another VM", spot("spot", spec{"spotInstanceType": "persistent"}),
			"instanceMarketOptions.spotOptions.instanceInterruptionBehavior", create),
		rule("only a kept request can start it again", spot("spot", spec{"instanceInterruptionBehavior": "stop"}),
			"instanceMarketOptions.spotOptions.instanceInterruptionBehavior", create),
		rule("a preference excludes a target", part("capacityReservation", spec{
			"capacityReservationPreference": "open",
			"capacityReservationId":         "cr-1",
		}),
			"capacityReservation.capacityReservationPreference", create),
		rule("one target", part("capacityReservation", spec{
			"capacityReservationId":               "cr-1",
			"capacityReservationResourceGroupArn": "arn",
		}),
			"capacityReservation.capacityReservationId", create),
		rule("a preference alone", part("capacityReservation", spec{"capacityReservationPreference": "none"}), "", 0),
		rule("one of EC2's", part("placement", spec{"tenancy": "shared"}), "placement.tenancy", create),
		rule("a host needs its tenancy", part("placement", spec{"hostId": "h-1"}), "placement.hostId", create),
		rule("they count from one", part("placement", spec{"partitionNumber": 0}), "placement.partitionNumber", create),
		rule("one of EC2's", part("placement", spec{"affinity": "near"}), "placement.affinity", create),
		rule("one of EC2's", part("instanceMetadataOptions", spec{"httpEndpoint": "on"}),
			"instanceMetadataOptions.httpEndpoint", create),
		rule("one of EC2's", part("instanceMetadataOptions", spec{"httpTokens": "v2"}), "instanceMetadataOptions.httpTokens",
			create),
		rule("0 to 64", part("instanceMetadataOptions", spec{"httpPutResponseHopLimit": 65}),
			"instanceMetadataOptions.httpPutResponseHopLimit", create),
		rule("0 to 64", part("instanceMetadataOptions", spec{"httpPutResponseHopLimit": 0}), "", 0),
		rule("IMDSv1 gives credentials away", nil, "instanceMetadataOptions.httpTokens", warning),
		rule("IMDSv1 gives credentials away", part("instanceMetadataOptions", spec{"httpTokens": "optional"}),
			"instanceMetadataOptions.httpTokens", warning),
		rule("both or none", part("cpuOptions", spec{"coreCount": 2}), "cpuOptions", create),
		rule("1 or 2", part("cpuOptions", spec{"coreCount": 2, "threadsPerCore": 3}), "cpuOptions.threadsPerCore", create),
		rule("a boolean is no string", spec{"srcAndDstChecksEnabled": "false"}, "srcAndDstChecksEnabled", create),
		rule("a misspelt field is found", spec{"machinetypes": "x"}, "machinetypes", warning),
	}
}

func secrets() []cloudtest.Secret {
	move := func(from, to string) func(cloud.Credentials) cloud.Credentials {
		return func(c cloud.Credentials) cloud.Credentials {
			if v := c[from]; to != "" {
				c[to] = v
			}
			delete(c, from)
			return c
		}
	}
	with := func(key, value string) func(cloud.Credentials) cloud.Credentials {
		return func(c cloud.Credentials) cloud.Credentials { c[key] = []byte(value); return c }
	}
	return []cloudtest.Secret{
		{Name: "as documented", Reason: "it is", Credentials: func(c cloud.Credentials) cloud.Credentials { return c }},
		{Name: "other name of the id", Reason: "MCM takes it", Credentials: move("providerAccessKeyId", "accessKeyID")},
		{Name: "other name of the key", Reason: "MCM takes it", Credentials: move("providerSecretAccessKey",
			"secretAccessKey")},
		{
			Name: "both names", Reason: "the first that is there counts",
			Credentials: with("secretAccessKey", "something else"),
		},
		{Name: "white space", Reason: "editors leave it", Credentials: with("providerSecretAccessKey", " "+ec2test.SecretKey+
			"\n")},
		{
			Name: "no id", Reason: "nobody calls", Credentials: move("providerAccessKeyId", ""),
			Missing: "secret.providerAccessKeyId",
		},
		{
			Name: "blank key", Reason: "no key", Credentials: with("providerSecretAccessKey", " "),
			Missing: "secret.providerSecretAccessKey",
		},
		{
			Name: "blank first name", Reason: "the first that is there counts", Missing: "secret.providerSecretAccessKey",
			Credentials: func(c cloud.Credentials) cloud.Credentials {
				c["secretAccessKey"], c["providerSecretAccessKey"] = c["providerSecretAccessKey"], nil
				return c
			},
		},
		{
			Name: "a token without a role", Reason: "both are needed", Missing: "secret.roleARN",
			Credentials: func(cloud.Credentials) cloud.Credentials {
				return cloud.Credentials{"workloadIdentityTokenFile": []byte("/var/run/token")}
			},
		},
	}
}

func providerIDs() []cloudtest.ProviderID {
	const id = "i-0123456789abcdef0"
	return []cloudtest.ProviderID{
		{Form: "MCM", Value: "aws:///eu-west-1/" + id, ID: id},
		{Form: "node", Value: "aws:///eu-west-1a/" + id, ID: id},
		{Form: "without place", Value: "aws:////" + id, ID: id, Reason: "older cloud providers wrote it"},
		{Form: "short", Value: "aws:///" + id, ID: id, Reason: "MCM takes the last element"},
		{Form: "old id", Value: "aws:///us-east-1/i-0a1b2c3d", ID: "i-0a1b2c3d", Reason: "ids were shorter once"},
		{Form: "volume", Value: "aws:///eu-west-1/vol-0123456789abcdef0", Reason: "a providerID names a VM"},
		{Form: "without id", Value: "aws:///eu-west-1/"},
		{Form: "pattern", Value: "aws:///eu-west-1/i-*", Reason: "an id has no such characters"},
		{Form: "fargate", Value: "aws:///eu-west-1a/fargate-ip-10-0-0-1.internal", Reason: "no instance"},
	}
}

func volumes() []cloudtest.Volume {
	return []cloudtest.Volume{
		{Name: "csi", Volume: cloud.Volume{Driver: "ebs.csi.aws.com", Handle: "vol-1"}, ID: "vol-1"},
		{Name: "in-tree", Volume: cloud.Volume{Driver: "kubernetes.io/aws-ebs", Handle: "vol-1"}, ID: "vol-1"},
		{
			Name: "in-tree with zone", Volume: cloud.Volume{Driver: "kubernetes.io/aws-ebs", Handle: "aws://eu-west-1a/vol-1"},
			ID: "vol-1",
		},
		{Name: "csi without handle", Volume: cloud.Volume{Driver: "ebs.csi.aws.com"}},
	}
}

// fails returns EC2's answer with an error.
func fails(status int, code, message string) cloudtest.Reply {
	return cloudtest.Reply{Status: status, Body: fmt.Sprintf(
		`<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>%s</Code><Message>%s</Message>`+
			`</Error></Errors><RequestID>r</RequestID></Response>`, code, message)}
}

// errorRows is what the cloud answers, and what comes of it.
func errorRows() []cloudtest.ErrorRow {
	var rows []cloudtest.ErrorRow
	add := func(op string, code cloud.Code, of *cloud.Offering, names string) {
		for name := range strings.FieldsSeq(names) {
			rows = append(rows, cloudtest.ErrorRow{
				Name: op + " " + name, Op: op, Reply: fails(400, name, "no"), Code: code,
				Reason: name, Of: of,
			})
		}
	}
	zone := &cloud.Offering{Region: "eu-west-1", Zone: "eu-west-1a", InstanceType: "m5.large", CapacityType: "on-demand"}
	region := &cloud.Offering{Region: "eu-west-1", InstanceType: "m5.large", CapacityType: "on-demand"}
	add("create", cloud.Exhausted, zone, "InsufficientCapacity InsufficientInstanceCapacity InsufficientHostCapacity "+
		"InsufficientReservedInstanceCapacity SpotMaxPriceTooLow UnfulfillableCapacity ReservationCapacityExceeded "+
		"Unsupported InsufficientCapacityOnHost VolumeTypeNotAvailableInZone")
	add("create", cloud.Exhausted, region, "InstanceLimitExceeded VcpuLimitExceeded MaxSpotInstanceCountExceeded "+
		"MaxFleetCountExceeded PendingVerification HostLimitExceeded")
	add("create", cloud.Exhausted, nil, "InsufficientAddressCapacity InsufficientVolumeCapacity "+
		"InsufficientFreeAddressesInSubnet "+
		"VolumeLimitExceeded MaxIOPSLimitExceeded RouteLimitExceeded NetworkInterfaceLimitExceeded "+
		"AddressLimitExceeded PrivateIpAddressLimitExceeded")
	add("create", cloud.Throttled, nil, "RequestLimitExceeded Throttling ThrottlingException EC2ThrottledException "+
		"RequestThrottled RequestThrottledException")
	add("create", cloud.Unavailable, nil, "InternalError InternalFailure ServiceUnavailable Unavailable "+
		"InvalidInstanceID.NotFound")
	add("create", cloud.Denied, nil, "UnauthorizedOperation AccessDenied OptInRequired Blocked")
	add("list", cloud.Denied, nil, "AuthFailure InvalidClientTokenId SignatureDoesNotMatch ExpiredToken RequestExpired")
	add("create", cloud.Invalid, nil, "InvalidAMIID.NotFound InvalidAMIID.Unavailable InvalidAMIID.Malformed "+
		"InvalidSubnetID.NotFound InvalidGroup.NotFound "+
		"InvalidKeyPair.NotFound InvalidParameter InvalidParameterValue InvalidParameterCombination "+
		"InvalidBlockDeviceMapping MissingParameter InvalidSnapshot.NotFound InvalidInstanceType")
	add("create", cloud.TokenUsed, nil, "IdempotentParameterMismatch IdempotentInstanceTerminated")
	add("capacity", cloud.Invalid, nil, "InvalidInstanceType InvalidParameterValue")
	add("get", cloud.NotFound, nil, "InvalidInstanceID.NotFound InvalidInstanceID.Malformed")
	add("get", cloud.Unknown, nil, "InvalidParameterValue SomethingNew")
	add("delete", cloud.Denied, nil, "OperationNotPermitted UnauthorizedOperation")
	add("delete", cloud.Throttled, nil, "RequestLimitExceeded")
	add("list", cloud.Unavailable, nil, "InternalError")
	rows = append(rows, cloudtest.ErrorRow{
		Name: "delete interface in use", Op: "delete", Code: cloud.Unavailable, Reason: "InvalidParameterValue",
		Reply: fails(400, "InvalidParameterValue", "Network interface 'eni-1' is currently in use."),
	})
	add("list", cloud.Unknown, nil, "InvalidInstanceID.NotFound")
	hinted := cloudtest.ErrorRow{
		Name: "get with a hint", Op: "get",
		Reply: fails(503, "RequestLimitExceeded", "Request limit exceeded."), Code: cloud.Throttled, After: 7 * time.Second,
	}
	hinted.Reply.Header = map[string]string{"Retry-After": "7"}
	rows = append(rows, hinted)
	for status, code := range map[int]cloud.Code{
		401: cloud.Denied, 403: cloud.Denied, 404: cloud.Unknown,
		429: cloud.Throttled, 502: cloud.Unavailable,
	} {
		rows = append(rows, cloudtest.ErrorRow{
			Name: fmt.Sprintf("proxy answers %d", status), Op: "get", Code: code, Reason: fmt.Sprintf("HTTP%d", status),
			Reply: cloudtest.Reply{Status: status, Body: "<html>no</html>"},
		})
	}
	return append(rows, cloudtest.ErrorRow{
		Name: "not XML", Op: "get", Code: cloud.Unavailable, Reason: "NoAnswer",
		Reply: cloudtest.Reply{Status: 200, Body: "xxxxxxxxxx"},
	})
}
