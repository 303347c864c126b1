package ec2test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const codeInvalidValue = "InvalidParameterValue"

// checkRequest refuses what EC2's model does not allow, and what the documentation
// rules out beside it.
func checkRequest(f params) error {
	if v := f.Get("Version"); v != apiVersion {
		return fail("NoSuchVersion", "The requested version (%s) of service AmazonEC2 does not exist", v)
	}
	if err := published().check(f.Values); err != nil {
		return err
	}
	for _, rule := range []func(params) error{
		checkToken, checkFilters, checkPage, checkIDs, checkTags, checkTagsOf, checkDevices, checkCounts,
	} {
		if err := rule(f); err != nil {
			return err
		}
	}
	return nil
}

// checkToken: a ClientToken has up to 64 ASCII characters.
func checkToken(f params) error {
	token := f.Get("ClientToken")
	const most = 64
	if len(token) > most || strings.ContainsFunc(token, func(r rune) bool { return r > '~' || r < ' ' }) {
		return fail(codeInvalidValue, "The client token '%s' is longer than %d ASCII characters", token, most)
	}
	return nil
}

// checkFilters: a request has up to 200 values of filters that are known.
func checkFilters(f params) error {
	const most = 200
	known := []string{
		"tag-key", "state", "instance-state-name", "instance-id", "volume-id", "network-interface-id",
		"attachment.instance-id",
	}
	total := 0
	for i := range f.count("Filter") {
		at := fmt.Sprintf("Filter.%d.", i+1)
		name, values := f.Get(at+"Name"), f.list(at+"Value")
		if !strings.HasPrefix(name, "tag:") && !slices.Contains(known, name) {
			return fail(codeInvalidValue, "The filter '%s' is invalid", name)
		}
		if len(values) == 0 {
			return fail(codeInvalidValue, "The filter '%s' has no values", name)
		}
		total += len(values)
	}
	if total > most {
		return fail("FilterLimitExceeded", "The maximum number of filter values specified on a single call is %d", most)
	}
	return nil
}

// checkPage: who names instances gets them all.
func checkPage(f params) error {
	if f.Get("Action") == "DescribeInstances" && f.Has("InstanceId.1") && f.Has("MaxResults") {
		return fail("InvalidParameterCombination",
			"The parameter instancesSet cannot be used with the parameter maxResults")
	}
	return nil
}

// checkCounts: a count of addresses or prefixes is not negative.
func checkCounts(f params) error {
	for name, values := range f.Values {
		field := name[strings.LastIndex(name, ".")+1:]
		if (field == "Ipv6PrefixCount" || field == "Ipv6AddressCount") && strings.HasPrefix(values[0], "-") {
			return fail(codeInvalidValue, "Value (%s) for parameter %s is invalid. It must not be negative.", values[0], name)
		}
	}
	return nil
}

var instanceID = regexp.MustCompile(`^i-[0-9a-f]{8}([0-9a-f]{9})?$`)

// checkIDs: an id has a form.
func checkIDs(f params) error {
	for _, id := range f.list("InstanceId") {
		if !instanceID.MatchString(id) {
			return fail("InvalidInstanceID.Malformed", "Invalid id: %q", id)
		}
	}
	return nil
}

// checkTags: a resource has up to 50 tags, keys have up to 127 characters and values up
// to 256, each key is there once, and those of AWS begin with aws:.
func checkTags(f params) error {
	const most = 50
	for i := range f.count("TagSpecification") {
		at := fmt.Sprintf("TagSpecification.%d.", i+1)
		if of := f.Get(at + "ResourceType"); !slices.Contains([]string{
			"instance", "volume", "network-interface", "spot-instances-request",
		}, of) {
			return fail(codeInvalidValue, "'%s' is not a valid taggable resource type for this operation.", of)
		}
		keys := map[string]bool{}
		for j := range f.count(at + "Tag") {
			key := f.Get(fmt.Sprintf("%sTag.%d.Key", at, j+1))
			if err := checkTag(key, f.Get(fmt.Sprintf("%sTag.%d.Value", at, j+1))); err != nil {
				return err
			}
			if keys[key] {
				return fail(codeInvalidValue, "Duplicate tag key '%s' specified.", key)
			}
			keys[key] = true
		}
		if len(keys) > most {
			return fail("TagLimitExceeded", "The maximum number of tags for a resource is %d", most)
		}
	}
	return nil
}

// checkTagsOf: the same for the tags of resources that exist.
func checkTagsOf(f params) error {
	if action := f.Get("Action"); action != "CreateTags" && action != "DeleteTags" {
		return nil
	}
	keys := map[string]bool{}
	for i := range f.count("Tag") {
		key := f.Get(fmt.Sprintf("Tag.%d.Key", i+1))
		if err := checkTag(key, f.Get(fmt.Sprintf("Tag.%d.Value", i+1))); err != nil {
			return err
		}
		if keys[key] {
			return fail(codeInvalidValue, "Duplicate tag key '%s' specified.", key)
		}
		keys[key] = true
	}
	return nil
}

func checkTag(key, value string) error {
	const keyMax, valueMax = 127, 256
	switch {
	case key == "":
		return fail(codeInvalidValue, "Tag key cannot be empty")
	case strings.HasPrefix(strings.ToLower(key), "aws:"):
		return fail(codeInvalidValue, "Tag keys starting with 'aws:' are reserved for internal use")
	case utf8.RuneCountInString(key) > keyMax:
		return fail(codeInvalidValue, "Tag key exceeds the maximum length of %d characters", keyMax)
	case utf8.RuneCountInString(value) > valueMax:
		return fail(codeInvalidValue, "Tag value exceeds the maximum length of %d characters", valueMax)
	}
	return nil
}

// checkDevices: types of volumes need IOPS or have none to be set, a key needs
// encryption, and each device and interface has a place of its own.
func checkDevices(f params) error {
	names := map[string]bool{}
	for i := range f.count("BlockDeviceMapping") {
		at := fmt.Sprintf("BlockDeviceMapping.%d.", i+1)
		kind, name := f.Get(at+"Ebs.VolumeType"), f.Get(at+"DeviceName")
		io := kind == "io1" || kind == "io2"
		switch {
		case names[name]:
			return fail("InvalidBlockDeviceMapping", "The device '%s' is used in more than one block-device mapping", name)
		case io && !f.Has(at+"Ebs.Iops"):
			return fail("MissingParameter", "The parameter iops must be specified for %s volumes.", kind)
		case f.Has(at+"Ebs.Iops") && !io && kind != "gp3":
			return fail("InvalidParameterCombination", "The parameter iops is not supported for %s volumes.", kind)
		case f.Has(at+"Ebs.Throughput") && kind != "gp3":
			return fail("InvalidParameterCombination", "The parameter throughput is not supported for %s volumes.", kind)
		case f.Has(at+"Ebs.KmsKeyId") && f.Get(at+"Ebs.Encrypted") != "true":
			return fail("InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set.")
		}
		names[name] = true
	}
	slots := map[string]bool{}
	for i := range f.count("NetworkInterface") {
		at := fmt.Sprintf("NetworkInterface.%d.", i+1)
		slot := strings.TrimLeft(f.Get(at+"NetworkCardIndex"), "0") + "/" + f.Get(at+"DeviceIndex")
		if slots[slot] {
			return fail("InvalidParameterCombination", "Each network interface requires a unique device index.")
		}
		slots[slot] = true
	}
	return nil
}
