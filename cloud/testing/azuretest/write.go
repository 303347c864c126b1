package azuretest

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// put makes what is not there, and changes nothing that is.
func (c *Cloud) put(w http.ResponseWriter, q *call, kind, name string, there *Resource) (int, any, error) {
	if there != nil {
		return c.again(q, there)
	}
	r := &Resource{Type: kind, Name: name, Made: c.now(), Tags: texts(q.body["tags"])}
	r.Properties, _ = q.body["properties"].(map[string]any)
	r.Identity, r.Plan = q.body["identity"], q.body["plan"]
	for _, z := range list(q.body["zones"]) {
		r.Zones = append(r.Zones, fmt.Sprint(z))
	}
	if err := c.common(q, r); err != nil {
		return 0, nil, err
	}
	switch kind {
	case TypeVM:
		if err := c.launch(r); err != nil {
			return 0, nil, err
		}
	case TypeDisk:
		if !c.knows(at(r.Properties, "creationData", "imageReference"), at(r.Properties, "creationData",
			"galleryImageReference")) {
			return 0, nil, &failure{http.StatusNotFound, "ImageNotFound", "The image was not found."}
		}
		if c.settings.FailDisks > 0 {
			c.settings.FailDisks--
			r.FailedOf = "InternalError"
		}
		c.add(r)
	default:
		return 0, nil, nil
	}
	w.Header().Set("Azure-AsyncOperation", "https://"+q.Host+"/operations/"+r.Name)
	w.Header().Set("Retry-After", "10")
	return c.answer(q, http.StatusCreated, shapeOf(kind), c.show(q, r, false))
}

// again answers a request for what is there.
func (c *Cloud) again(q *call, there *Resource) (int, any, error) {
	switch {
	case q.Header.Get("If-None-Match") == "*" && there.Type == TypeVM:
		return 0, nil, &failure{http.StatusPreconditionFailed, "PreconditionFailed", "The resource already exists."}
	case there.Type == TypeVM:
		return 0, nil, &failure{
			http.StatusConflict, "PropertyChangeNotAllowed", "Changing property 'osProfile.customData' is not allowed.",
		}
	}
	there.Tags = texts(q.body["tags"])
	return c.answer(q, http.StatusOK, shapeOf(there.Type), c.show(q, there, false))
}

// common checks what all resources have.
func (c *Cloud) common(q *call, r *Resource) error {
	const names, vmNames, mostTags = 80, 64, 50
	if len(r.Name) > names || r.Type == TypeVM && len(r.Name) > vmNames {
		return bad("InvalidResourceName", "The name is too long.")
	}
	if !strings.EqualFold(fmt.Sprint(q.body["location"]), c.settings.Location) {
		return bad("LocationNotAvailableForResourceType", "The location is not available.")
	}
	for _, z := range r.Zones {
		if !slices.Contains(c.settings.Zones, z) || len(r.Zones) > 1 {
			return bad("InvalidAvailabilityZone", "The zone(s) '"+z+"' is not supported.")
		}
	}
	return tagsAllowed(r.Tags, mostTags)
}

func tagsAllowed(tags map[string]string, most int) error {
	const keyMax, valueMax = 512, 256
	seen := map[string]bool{}
	for k, v := range tags {
		lower := strings.ToLower(k)
		if seen[lower] || k == "" || len(k) > keyMax || len(v) > valueMax || strings.ContainsAny(k, `<>%&\?/`) {
			return bad("InvalidTagNameCharacters", "The tag '"+k+"' is not allowed.")
		}
		seen[lower] = true
	}
	if len(tags) > most {
		return bad("TooManyTags", "There are too many tags.")
	}
	return nil
}

// launch makes a VM with its disks and interfaces.
func (c *Cloud) launch(r *Resource) error {
	for _, check := range []func(*Resource) error{c.guest, c.placement, c.osImage, c.networks} {
		if err := check(r); err != nil {
			return err
		}
	}
	if err := c.attachable(r); err != nil {
		return err
	}
	c.add(r)
	c.makeParts(r)
	return nil
}

// guest checks the settings of the operating system.
func (c *Cloud) guest(r *Resource) error {
	const most = 1<<16 - 1
	os, _ := at(r.Properties, "osProfile").(map[string]any)
	data, err := base64.StdEncoding.DecodeString(text(os["customData"]))
	keys := list(at(os, "linuxConfiguration", "ssh", "publicKeys"))
	switch {
	case err != nil || len(data) > most:
		return bad("InvalidParameter", "Custom data in OSProfile must be in Base64 encoding with a length of up to 87380.")
	case text(os["adminUsername"]) == "" || text(os["computerName"]) == "":
		return bad("InvalidParameter", "Required parameter 'osProfile' is missing.")
	case len(keys) != 1 || !strings.HasPrefix(text(at(keys[0], "keyData")), "ssh-"):
		return bad("InvalidParameter", "The value of parameter linuxConfiguration.ssh.publicKeys.keyData is invalid.")
	}
	return nil
}

// placement checks the size and the room for it. A zone without room shows only later.
func (c *Cloud) placement(r *Resource) error {
	name := text(at(r.Properties, "hardwareProfile", "vmSize"))
	size, known := c.settings.Sizes[name]
	if !known {
		return bad("InvalidParameter", "The value "+name+" provided for the VM size is not valid.")
	}
	if size.Restricted {
		return &failure{http.StatusConflict, "SkuNotAvailable", "The requested VM size is not available."}
	}
	if text(r.Properties["evictionPolicy"]) != "" && text(r.Properties["priority"]) == "" {
		return bad("InvalidParameter", "Eviction policy can be set only on Azure Spot Virtual Machines.")
	}
	return c.room(r)
}

// room checks the quota, and notes that a VM finds no room. Spot VMs have a quota and room of their own. The words
// are those of public reports, e.g. karpenter-provider-azure 91 and azure-docs 55435.
func (c *Cloud) room(r *Resource) error {
	all, here := 0, 0
	for _, other := range c.all {
		if other.Type != TypeVM || other.FailedOf != "" {
			continue
		}
		if other.spot() == r.spot() {
			all++
		}
		if other.place() == r.place() {
			here++
		}
	}
	quota, of := c.settings.Quota, "Total Regional Cores"
	if r.spot() {
		quota, of = c.settings.SpotQuota, "LowPriorityCores"
	}
	if quota != 0 && all >= quota {
		return &failure{
			http.StatusConflict, "OperationNotAllowed",
			"Operation could not be completed as it results in exceeding approved " + of + " quota.",
		}
	}
	if size := text(at(r.Properties, "hardwareProfile", "vmSize")); r.spot() && c.settings.NoSpot[size] {
		return &failure{
			http.StatusConflict, "SkuNotAvailable", "The requested size for resource '" + r.Name + "' is currently not " +
				"available in location '" + c.settings.Location + "' zones '" + strings.Join(r.Zones, ",") + "'.",
		}
	}
	if most, limited := c.settings.Capacity[r.place()]; limited && here >= most {
		r.FailedOf, r.FailureText = "AllocationFailed", "We do not have sufficient capacity for the requested VM size."
	}
	return nil
}

func (r *Resource) spot() bool {
	priority := text(r.Properties["priority"])
	return priority == "Spot" || priority == "Low"
}

// place is the zone and the size of a VM.
func (r *Resource) place() string {
	return strings.Join(r.Zones, "") + "/" + text(at(r.Properties, "hardwareProfile", "vmSize"))
}

// osImage checks the image of the OS disk.
func (c *Cloud) osImage(r *Resource) error {
	ref, _ := at(r.Properties, "storageProfile", "imageReference").(map[string]any)
	if !c.knows(ref) {
		return &failure{http.StatusNotFound, "ImageNotFound", "The image was not found."}
	}
	publisher, planned := c.settings.Plans[urnOf(ref)]
	if planned != (r.Plan != nil) || planned && text(at(r.Plan, "publisher")) != publisher {
		return bad("VMMarketplaceInvalidInput", "Creating a virtual machine from this image requires Plan information.")
	}
	plan := text(at(r.Plan, "publisher")) + ":" + text(at(r.Plan, "product")) + ":" + text(at(r.Plan, "name"))
	if planned && !slices.Contains(c.settings.Accepted, plan) {
		return bad("MarketplacePurchaseEligibilityFailed", "Marketplace purchase eligibility check returned errors.")
	}
	return nil
}

func urnOf(ref any) string {
	return text(at(ref, "publisher")) + ":" + text(at(ref, "offer")) + ":" + text(at(ref, "sku")) + ":" +
		text(at(ref, "version"))
}

// knows reports whether one of these references is to an image that there is.
func (c *Cloud) knows(refs ...any) bool {
	for _, ref := range refs {
		for _, id := range []string{
			text(at(ref, "id")), urnOf(ref), text(at(ref, "communityGalleryImageId")), text(at(ref, "sharedGalleryImageId")),
		} {
			if slices.ContainsFunc(c.settings.Images, func(known string) bool { return strings.EqualFold(known, id) }) {
				return true
			}
		}
	}
	return false
}

// networks checks the subnets of the interfaces that are to be made.
func (c *Cloud) networks(r *Resource) error {
	configured := list(at(r.Properties, "networkProfile", "networkInterfaceConfigurations"))
	if len(configured) == 0 || text(at(r.Properties, "networkProfile", "networkApiVersion")) == "" {
		return bad("NetworkProfileNotFound", "The VM has no network interfaces.")
	}
	for _, nic := range configured {
		if c.find(TypeNIC, text(at(nic, "name"))) != nil {
			return &failure{http.StatusConflict, "NicInUse", "The network interface exists."} // invented
		}
		for _, ip := range list(at(nic, "properties", "ipConfigurations")) {
			id := text(at(ip, "properties", "subnet", "id"))
			known := slices.ContainsFunc(c.settings.Subnets, func(s string) bool {
				p := strings.Split(s, "/")
				return strings.EqualFold(id, "/subscriptions/"+Subscription+"/resourceGroups/"+p[0]+
					"/providers/Microsoft.Network/virtualNetworks/"+p[1]+"/subnets/"+p[2])
			})
			if !known {
				return bad("InvalidResourceReference", "Resource "+id+" referenced by resource was not found.")
			}
		}
	}
	return nil
}

// disks are the disks of a VM as they were asked for, the OS disk first.
func (r *Resource) disks() []map[string]any {
	var all []map[string]any
	for _, d := range append([]any{at(r.Properties, "storageProfile", "osDisk")},
		list(at(r.Properties, "storageProfile", "dataDisks"))...) {
		if m, ok := d.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// attachable checks the disks of a VM: those to attach are there, the others are not.
func (c *Cloud) attachable(r *Resource) error {
	for _, d := range r.disks() {
		there := c.find(TypeDisk, text(d["name"]))
		if text(d["createOption"]) != "Attach" && there != nil {
			return &failure{
				http.StatusConflict, "ConflictingUserInput", "Disk " + there.Name + " already exists in resource group " +
					strings.ToUpper(c.settings.Group) + ". Only CreateOption.Attach is supported.",
			}
		}
		if text(d["createOption"]) != "Attach" {
			continue
		}
		if err := c.attach(r, there, strings.ToLower(text(at(d, "managedDisk", "id")))); err != nil {
			return err
		}
	}
	return nil
}

// attach checks a disk that a VM is to have by its id. A disk of a zone is attached in that zone only, in the words
// of a public report (jenkins-infra/azure 1406).
func (c *Cloud) attach(vm, there *Resource, id string) error {
	switch {
	case there == nil || id != strings.ToLower(c.id(TypeDisk, there.Name)):
		return &failure{http.StatusNotFound, "NotFound", "The disk was not found."}
	case c.diskState(there) != "Succeeded":
		return &failure{http.StatusConflict, "Conflict", "The disk is not ready."}
	case there.VM != "":
		return &failure{http.StatusConflict, "AttachDiskWhileBeingDetached", "The disk is in use."}
	case !slices.Equal(vm.Zones, there.Zones):
		return bad("BadRequest", fmt.Sprintf("Disk %s cannot be attached to the VM because it is not in the same zone as "+
			"the VM. VM zone: '%s'. Disk zone: '%s'.", there.Name, strings.Join(vm.Zones, ""), strings.Join(there.Zones, "")))
	}
	return nil
}

func (c *Cloud) diskState(r *Resource) string {
	if c.settings.DisksHeld || c.now().Before(r.Made.Add(c.settings.Boot)) {
		return "Creating"
	}
	if r.FailedOf != "" {
		return "Failed"
	}
	return "Succeeded"
}

// makeParts makes the disks and interfaces of a VM. Disks get its tags.
func (c *Cloud) makeParts(r *Resource) {
	vm := strings.ToLower(r.Name)
	for _, d := range r.disks() {
		goes := text(d["deleteOption"]) == "Delete"
		if there := c.find(TypeDisk, text(d["name"])); there != nil {
			there.VM, there.DeleteWith = vm, goes
			continue
		}
		c.add(&Resource{
			Type: TypeDisk, Name: text(d["name"]), Tags: maps.Clone(r.Tags), Zones: r.Zones, Made: r.Made,
			VM: vm, DeleteWith: goes,
		})
	}
	for _, nic := range list(at(r.Properties, "networkProfile", "networkInterfaceConfigurations")) {
		const size = 250
		c.add(&Resource{
			Type: TypeNIC, Name: text(at(nic, "name")), Tags: texts(at(nic, "tags")), Made: r.Made, VM: vm,
			DeleteWith: text(at(nic, "properties", "deleteOption")) == "Delete",
			Address:    fmt.Sprintf("10.0.%d.%d", c.serial/size%size, 1+c.serial%size),
		})
	}
}

// remove deletes a resource, or says why that cannot be.
func (c *Cloud) remove(w http.ResponseWriter, r *Resource) (int, any, error) {
	switch {
	case r.Type == TypeVM && r.Deleted.IsZero():
		r.Deleted = c.now()
	case r.Type == TypeVM:
	case r.VM != "" && r.Type == TypeNIC:
		return 0, nil, bad("NicInUse", "Network Interface "+r.Name+" is used by existing VM.")
	case r.VM != "":
		return 0, nil, &failure{http.StatusConflict, "OperationNotAllowed", "Disk " + r.Name + " is attached to VM."}
	case c.now().Before(r.ReservedUntil):
		return 0, nil, bad("NicReservedForAnotherVm", "Nic is reserved for another VM for 180 seconds.")
	default:
		delete(c.all, key(r.Type, r.Name))
	}
	w.Header().Set("Location", "https://azure.invalid/operations/"+r.Name)
	return http.StatusAccepted, nil, nil
}

// at is the value at a path of an object; nil if there is none.
func at(v any, path ...string) any {
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func list(v any) []any {
	all, _ := v.([]any)
	return all
}

func texts(v any) map[string]string {
	out := map[string]string{}
	m, _ := v.(map[string]any)
	for key, value := range m {
		out[key] = text(value)
	}
	return out
}
