package azure

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// What Azure takes as some of the values, in its own spelling.
const prioritySpot = "Spot"

var (
	urn = regexp.MustCompile(`[^:]+:[^:]+:[^:]+:[^:]+`)

	reservationID = regexp.MustCompile(`(?i)/subscriptions/[^/]+(/resourceGroups/[^/]+)?/providers/Microsoft\.Compute/` +
		`CapacityReservationGroups/[^/]+`)

	cachings        = []string{"None", "ReadOnly", "ReadWrite"}
	controllers     = []string{"SCSI", "NVMe"}
	securityTypes   = []string{"ConfidentialVM", "TrustedLaunch", "Standard"}
	encryptionTypes = []string{"DiskWithVMGuestState", "NonPersistedTPM", "VMGuestStateOnly"}
	createOptions   = []string{"Attach", "Copy", "Empty", "FromImage", "Restore"}
)

// validate adds what is wrong with the values of a spec that decoded.
func (s *spec) validate() {
	s.Require(cloud.BlocksAll, "location", s.Location, "name the region, e.g. westeurope")
	s.Require(cloud.BlocksAll, "resourceGroup", s.ResourceGroup, "name the resource group of the VMs")
	if _, known := places[s.cloudName()]; !known {
		s.Problems.Add(cloud.BlocksAll, "cloudConfiguration.name", fmt.Sprintf("is %q and has to be one of %s", s.Cloud.Name,
			strings.Join(slices.Sorted(maps.Keys(places)), ", ")))
	}
	s.Require(cloud.BlocksCreate, "subnetInfo.vnetName", s.Subnet.VNet, "name the virtual network")
	s.Require(cloud.BlocksCreate, "subnetInfo.subnetName", s.Subnet.Name, "name the subnet")
	s.Require(cloud.BlocksCreate, "properties.hardwareProfile.vmSize", s.Properties.Hardware.Size,
		"name the size, e.g. Standard_D2s_v5")
	s.Require(cloud.BlocksCreate, "properties.osProfile.adminUsername", s.Properties.OS.User, "name a user, e.g. core")
	s.validateTags()
	s.validateStorage()
	s.validatePlace()
	s.validateSpot()
	s.validateSecurity()
}

// validateTags checks the tags, whose keys are the same in capitals and small letters.
func (s *spec) validateTags() {
	s.CheckTags(cloud.BlocksCreate, "tags", s.Tags, tagLimits)
	s.ownership = driverkit.Ownership(folded(s.Tags), driverkit.Begins(clusterPrefix), driverkit.Begins(rolePrefix))
	if s.ownership == nil && !s.Wrong("tags") {
		s.Problems.Add(cloud.BlocksAll, "tags", "lack those that name the owner of the VMs; add a key "+clusterPrefix+
			"<cluster> and a key "+rolePrefix+"<role>")
	}
	seen := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		lower := strings.ToLower(key)
		s.BlockIf(seen[lower] != "", "tags["+key+"]", "is the same tag as %q, because Azure ignores case; remove one of them",
			seen[lower])
		s.WarnIf(strings.HasPrefix(lower, codec.Key(cloud.TagPrefix)), "tags["+key+"]",
			"is set by the manager on every resource and has no effect here; remove it")
		seen[lower] = key
	}
}

func (s *spec) validateStorage() {
	const at = "properties.storageProfile"
	st := s.Properties.Storage
	s.validateImage(at+".imageReference", st.Image)
	s.oneOf(at+".diskControllerType", st.Controller, controllers)
	s.Require(cloud.BlocksCreate, at+".osDisk.createOption", st.OSDisk.Option, "set it to FromImage")
	s.warnOneOf(at+".osDisk.createOption", st.OSDisk.Option, createOptions)
	s.warnOneOf(at+".osDisk.caching", st.OSDisk.Caching, cachings)
	s.size(at+".osDisk.diskSizeGB", st.OSDisk.SizeGB)
	if sec := st.OSDisk.Managed.Security; sec != nil {
		s.oneOf(at+".osDisk.managedDisk.securityProfile.securityEncryptionType", sec.Encryption, encryptionTypes)
	}
	luns := map[int32]bool{}
	for i, d := range st.DataDisks {
		field := fmt.Sprintf("%s.dataDisks[%d]", at, i)
		s.Require(cloud.BlocksCreate, field+".storageAccountType", d.Type, "name the type, e.g. Premium_LRS")
		s.warnOneOf(field+".caching", d.Caching, cachings)
		s.size(field+".diskSizeGB", d.SizeGB)
		if d.Image != nil {
			s.validateImage(field+".imageRef", *d.Image)
		}
		s.AtLeast(field+".lun", d.LUN, 0)
		s.BlockIf(luns[*d.LUN] && !s.Wrong(field+".lun"), field+".lun",
			"is %d, as that of another disk; give each disk its own, from 0 on", *d.LUN)
		luns[*d.LUN] = true
	}
}

func (s *spec) size(field string, gb int32) {
	s.BlockIf(gb <= 0 && !s.Wrong(field), field, "is %d and has to be at least 1", gb)
}

func (s *spec) validateImage(field string, i imageSpec) {
	named := 0
	for _, id := range []string{i.ID, i.URN, i.CommunityGallery, i.SharedGallery} {
		if id != "" {
			named++
		}
	}
	s.BlockIf(named != 1 && !s.Wrong(field), field,
		"names %d images; set one of id, urn, communityGalleryImageID and sharedGalleryImageID", named)
	s.Matches(cloud.BlocksCreate, field+".urn", i.URN, urn, "publisher:offer:sku:version")
}

// validatePlace checks where in the region VMs are made.
func (s *spec) validatePlace() {
	p, named := s.Properties, 0
	for _, is := range []bool{p.Zone != nil || len(p.Zones) > 0, p.AvailabilitySet != nil, p.ScaleSet != nil} {
		if is {
			named++
		}
	}
	s.BlockIf(named > 1, "properties", "name %d of zone, availabilitySet and virtualMachineScaleSet; keep one of them",
		named)
	s.WarnIf(named == 0 && !s.Wrong("properties"), "properties",
		"name no zone, availabilitySet or virtualMachineScaleSet, without which MCM makes no VM; Azure chooses a zone")
	for i, id := range p.Network.PoolIDs {
		s.BlockIf(!strings.Contains(strings.ToLower(id), "/backendaddresspools/"),
			fmt.Sprintf("properties.networkProfile.loadBalancerPoolIDs[%d]", i),
			"is %q; give the resource id of a backend address pool", id)
	}
	if p.MachineSet != nil {
		s.OneOf("properties.machineSet.kind", strings.ToLower(p.MachineSet.Kind), "vmo", "availabilityset")
	}
	if p.CapacityReservation != nil {
		s.Matches(cloud.BlocksCreate, "properties.capacityReservation.capacityReservationGroupID",
			p.CapacityReservation.GroupID, reservationID, "the resource id of a CapacityReservationGroup")
	}
}

func (s *spec) validateSpot() {
	s.OneOf("properties.priority", s.Properties.Priority, "Regular", "Low", prioritySpot)
	s.OneOf("properties.evictionPolicy", s.Properties.EvictionPolicy, "Deallocate", "Delete")
	s.BlockIf(!s.spot() && (s.Properties.EvictionPolicy != "" || s.Properties.Billing != nil), "properties.priority",
		"has to be Spot with evictionPolicy or billingProfile; set it, or remove them")
}

func (s *spec) validateSecurity() {
	if sec := s.Properties.Security; sec != nil {
		s.oneOf("properties.securityProfile.securityType", sec.Type, securityTypes)
	}
}

// oneOf is OneOf for what MCM compares without regard to case.
func (s *spec) oneOf(path, value string, allowed []string) {
	if !slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, value) }) {
		s.OneOf(path, value, allowed...)
	}
}

// warnOneOf is OneOf for what MCM leaves to Azure, which may know more values.
func (s *spec) warnOneOf(path, value string, known []string) {
	s.WarnIf(value != "" && !slices.Contains(known, value), path, "is %q, which is none of %s that are known; check it",
		value, strings.Join(known, ", "))
}

// folded are tags with keys in small letters.
func folded(tags map[string]string) map[string]string {
	lower := make(map[string]string, len(tags))
	for key, value := range tags {
		lower[strings.ToLower(key)] = value
	}
	return lower
}
