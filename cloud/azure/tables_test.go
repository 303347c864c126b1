package azure_test

import (
	"encoding/json"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

func rules() []cloudtest.Rule {
	const create, all, warning = cloud.BlocksCreate, cloud.BlocksAll, cloud.Warning
	rule := func(name, reason string, c cloud.ClassInput, field string, severity cloud.Severity) cloudtest.Rule {
		return cloudtest.Rule{Name: name, Reason: reason, Class: c, Field: field, Severity: severity}
	}
	const needs = "MCM requires it"
	disk := func(edits spec) cloud.ClassInput {
		first := spec{"lun": 0, "storageAccountType": "Premium_LRS", "diskSizeGB": 20}
		second := edit(edit(first, spec{"lun": 1}), edits)
		return with(spec{"storageProfile": storage(spec{"dataDisks": []any{first, second}})})
	}
	osDisk := func(edits spec) cloud.ClassInput {
		d := edit(spec{"diskSizeGB": 50, "createOption": "FromImage"}, edits)
		return with(spec{"storageProfile": storage(spec{"osDisk": d})})
	}
	image := func(i spec) cloud.ClassInput { return with(spec{"storageProfile": storage(spec{"imageReference": i})}) }
	set := spec{"id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/availabilitySets/a"}
	const storageField = "providerSpec.properties.storageProfile"
	return []cloudtest.Rule{
		rule("location", needs, class("c", spec{"location": nil}), "providerSpec.location", all),
		rule("group", needs, class("c", spec{"resourceGroup": ""}), "providerSpec.resourceGroup", all),
		rule("tags", needs, class("c", spec{"tags": spec{"kubernetes.io-cluster-c": "1"}}), "providerSpec.tags", all),
		rule("cloud", "there are three", class("c", spec{"cloudConfiguration": spec{"name": "AzureMoon"}}),
			"providerSpec.cloudConfiguration.name", all),
		rule("network", needs, class("c", spec{"subnetInfo": spec{"subnetName": "n"}}),
			"providerSpec.subnetInfo.vnetName", create),
		rule("subnet", needs, class("c", spec{"subnetInfo": spec{"vnetName": "n"}}),
			"providerSpec.subnetInfo.subnetName", create),
		rule("size", needs, with(spec{"hardwareProfile": spec{}}), "providerSpec.properties.hardwareProfile.vmSize", create),
		rule("user", needs, with(spec{"osProfile": spec{}}), "providerSpec.properties.osProfile.adminUsername", create),
		rule("no image", needs, image(spec{}), storageField+".imageReference", create),
		rule("two images", "MCM takes one",
			image(spec{"id": "/i", "urn": "a:b:c:d"}), storageField+".imageReference", create),
		rule("urn", "it has four parts", image(spec{"urn": "a:b:c"}), storageField+".imageReference.urn", create),
		rule("disk size", needs, osDisk(spec{"diskSizeGB": 0}), storageField+".osDisk.diskSizeGB", create),
		rule("create option", needs, osDisk(spec{"createOption": nil}), storageField+".osDisk.createOption", create),
		rule("caching", "MCM leaves it to Azure", osDisk(spec{"caching": "Some"}), storageField+".osDisk.caching", warning),
		rule("lun", "MCM wants each once", disk(spec{"lun": 0}), storageField+".dataDisks[1].lun", create),
		rule("no lun", "it is 0, as with MCM, which the first one has", disk(spec{"lun": nil}),
			storageField+".dataDisks[1].lun", create),
		rule("only one without a lun", "it is 0, as with MCM", with(spec{"storageProfile": storage(spec{
			"dataDisks": []any{spec{"storageAccountType": "Premium_LRS", "diskSizeGB": 20}},
		})}), "", 0),
		rule("availability set of no id", "MCM takes it as not set", with(spec{"availabilitySet": spec{"id": ""}}), "", 0),
		rule("negative lun", "MCM refuses it", disk(spec{"lun": -1}), storageField+".dataDisks[1].lun", create),
		rule("disk type", needs, disk(spec{"storageAccountType": ""}),
			storageField+".dataDisks[1].storageAccountType", create),
		rule("data size", needs, disk(spec{"diskSizeGB": -1}), storageField+".dataDisks[1].diskSizeGB", create),
		rule("disk image", "it is an image reference", disk(spec{"imageRef": spec{}}),
			storageField+".dataDisks[1].imageRef", create),
		rule("controller", "MCM compares it with the SDK",
			with(spec{"storageProfile": storage(spec{"diskControllerType": "IDE"})}),
			storageField+".diskControllerType", create),
		rule("controller in small letters", "MCM ignores case",
			with(spec{"storageProfile": storage(spec{"diskControllerType": "nvme"})}), "", 0),
		rule("security", "MCM compares it with the SDK", with(spec{"securityProfile": spec{"securityType": "Some"}}),
			"providerSpec.properties.securityProfile.securityType", create),
		rule("two places", "MCM takes one", with(spec{"availabilitySet": set}), "providerSpec.properties", create),
		rule("no place", "MCM refuses it; Azure chooses", with(spec{"zone": nil}), "providerSpec.properties", warning),
		rule("availability set", "in place of a zone", with(spec{"zone": nil, "availabilitySet": set}), "", 0),
		rule("machine set", "the older form", with(spec{"zone": nil, "machineSet": spec{"id": "/s", "kind": "vmo"}}), "", 0),
		rule("machine set of no kind", "MCM knows two", with(spec{"zone": nil, "machineSet": spec{"id": "/s", "kind": "x"}}),
			"providerSpec.properties.machineSet.kind", create),
		rule("reservation", "MCM parses the id", with(spec{"capacityReservation": spec{"capacityReservationGroupID": "r"}}),
			"providerSpec.properties.capacityReservation.capacityReservationGroupID", create),
		rule("price", "only Spot VMs have one", with(spec{"billingProfile": spec{"maxPrice": 1}}),
			"providerSpec.properties.priority", create),
		rule("same tags", "Azure ignores case", class("c", spec{"tags": edit(owned("c", "r"), spec{"a": "1", "A": "2"})}),
			"providerSpec.tags[a]", create),
		rule("slash in a tag", "Azure does not take it", class("c", spec{"tags": edit(owned("c", "r"), spec{"a/b": "1"})}),
			"providerSpec.tags[a/b]", create),
		rule("a load balancer", "an interface is in pools", with(spec{"networkProfile": spec{
			"loadBalancerPoolIDs": []string{"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/loadBalancers/api"},
		}}), "providerSpec.properties.networkProfile.loadBalancerPoolIDs[0]", create),
		rule("a misspelt field", "nothing reads it", class("c", spec{"colour": "red"}), "providerSpec.colour", warning),
		rule("a number as name", "the type is wrong", class("c", spec{"location": 7}), "providerSpec.location", all),
	}
}

func samples() []cloudtest.Sample {
	text := func(c cloud.ClassInput) []byte { return c.Spec }
	var upper map[string]any
	if err := json.Unmarshal(class("c", nil).Spec, &upper); err != nil {
		panic(err)
	}
	upper["LOCATION"] = upper["location"]
	delete(upper, "location")
	shouted, err := json.Marshal(upper)
	if err != nil {
		panic(err)
	}
	return []cloudtest.Sample{
		{Name: "small", Class: class("c", nil)},
		{Name: "full", Class: class("c", full())},
		{Name: "another case", Class: cloud.ClassInput{Name: "c", Spec: shouted}, Defaulted: text(class("c", nil))},
	}
}
