package azure

import "time"

// The parts of Azure's resources that the driver writes and reads.

type reference struct {
	ID string `json:"id,omitempty"`
}

// resource is what every resource has.
type resource struct {
	ID        string            `json:"id,omitempty"`
	Name      string            `json:"name,omitempty"`
	Type      string            `json:"type,omitempty"`
	Location  string            `json:"location,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
	Zones     []string          `json:"zones,omitempty"`
	ManagedBy string            `json:"managedBy,omitempty"`
}

type virtualMachine struct {
	resource

	Identity   *identity    `json:"identity,omitempty"`
	Plan       *plan        `json:"plan,omitempty"`
	Properties vmProperties `json:"properties"`
}

type identity struct {
	Type string              `json:"type"`
	IDs  map[string]struct{} `json:"userAssignedIdentities"`
}

type plan struct {
	Name      string `json:"name"`
	Product   string `json:"product"`
	Publisher string `json:"publisher"`
}

type vmProperties struct {
	Hardware            *hardwareProfile    `json:"hardwareProfile,omitempty"`
	Storage             *storageProfile     `json:"storageProfile,omitempty"`
	OS                  *osProfile          `json:"osProfile,omitempty"`
	Network             *networkProfile     `json:"networkProfile,omitempty"`
	Diagnostics         *diagnosticsProfile `json:"diagnosticsProfile,omitempty"`
	Security            *securityProfile    `json:"securityProfile,omitempty"`
	CapacityReservation *capacityProfile    `json:"capacityReservation,omitempty"`
	AvailabilitySet     *reference          `json:"availabilitySet,omitempty"`
	ScaleSet            *reference          `json:"virtualMachineScaleSet,omitempty"`
	Priority            string              `json:"priority,omitempty"`
	EvictionPolicy      string              `json:"evictionPolicy,omitempty"`
	Billing             *billingProfile     `json:"billingProfile,omitempty"`

	ProvisioningState string        `json:"provisioningState,omitempty"`
	InstanceView      *instanceView `json:"instanceView,omitempty"`
	TimeCreated       *time.Time    `json:"timeCreated,omitempty"`
}

type hardwareProfile struct {
	Size string `json:"vmSize"`
}

type storageProfile struct {
	Image      *imageReference `json:"imageReference,omitempty"`
	Controller string          `json:"diskControllerType,omitempty"`
	OSDisk     vmDisk          `json:"osDisk"`
	DataDisks  []vmDisk        `json:"dataDisks,omitempty"`
}

type imageReference struct {
	ID               string `json:"id,omitempty"`
	Publisher        string `json:"publisher,omitempty"`
	Offer            string `json:"offer,omitempty"`
	SKU              string `json:"sku,omitempty"`
	Version          string `json:"version,omitempty"`
	CommunityGallery string `json:"communityGalleryImageId,omitempty"`
	SharedGallery    string `json:"sharedGalleryImageId,omitempty"`
}

// vmDisk is a disk of a VM; only data disks have a LUN.
type vmDisk struct {
	Name         string             `json:"name,omitempty"`
	LUN          *int32             `json:"lun,omitempty"`
	CreateOption string             `json:"createOption"`
	Caching      string             `json:"caching,omitempty"`
	SizeGB       int32              `json:"diskSizeGB,omitempty"`
	DeleteOption string             `json:"deleteOption,omitempty"`
	Managed      *managedParameters `json:"managedDisk,omitempty"`
}

type managedParameters struct {
	ID       string        `json:"id,omitempty"`
	Type     string        `json:"storageAccountType,omitempty"`
	Security *diskSecurity `json:"securityProfile,omitempty"`
}

type diskSecurity struct {
	Encryption string `json:"securityEncryptionType"`
}

type osProfile struct {
	ComputerName string             `json:"computerName"`
	User         string             `json:"adminUsername"`
	CustomData   string             `json:"customData,omitempty"`
	Linux        linuxConfiguration `json:"linuxConfiguration"`
}

type linuxConfiguration struct {
	NoPasswords bool             `json:"disablePasswordAuthentication"`
	SSH         sshConfiguration `json:"ssh"`
}

type sshConfiguration struct {
	Keys []sshKey `json:"publicKeys"`
}

// sshKey is a key in provider specs, too.
type sshKey struct {
	Path string `json:"path"`
	Data string `json:"keyData"`
}

type networkProfile struct {
	Version    string          `json:"networkApiVersion,omitempty"`
	Configured []nicConfigured `json:"networkInterfaceConfigurations,omitempty"`
	Interfaces []nicReference  `json:"networkInterfaces,omitempty"`
}

type nicReference struct {
	ID         string `json:"id"`
	Properties *struct {
		Primary bool `json:"primary"`
	} `json:"properties,omitempty"`
}

// nicConfigured is a network interface that is made with the VM.
type nicConfigured struct {
	Name       string            `json:"name"`
	Tags       map[string]string `json:"tags,omitempty"`
	Properties struct {
		Primary       bool           `json:"primary"`
		DeleteOption  string         `json:"deleteOption"`
		Accelerated   *bool          `json:"enableAcceleratedNetworking,omitempty"`
		Forwarding    bool           `json:"enableIPForwarding"`
		SecurityGroup *reference     `json:"networkSecurityGroup,omitempty"`
		IPs           []ipConfigured `json:"ipConfigurations"`
	} `json:"properties"`
}

type ipConfigured struct {
	Name       string `json:"name"`
	Properties struct {
		Primary bool        `json:"primary"`
		Subnet  reference   `json:"subnet"`
		Pools   []reference `json:"loadBalancerBackendAddressPools,omitempty"`
	} `json:"properties"`
}

type diagnosticsProfile struct {
	Boot struct {
		Enabled    bool   `json:"enabled"`
		StorageURI string `json:"storageUri,omitempty"`
	} `json:"bootDiagnostics"`
}

type securityProfile struct {
	Type string        `json:"securityType,omitempty"`
	UEFI *uefiSettings `json:"uefiSettings,omitempty"`
}

type uefiSettings struct {
	TPM        *bool `json:"vTpmEnabled,omitempty"`
	SecureBoot *bool `json:"secureBootEnabled,omitempty"`
}

type capacityProfile struct {
	Group reference `json:"capacityReservationGroup"`
}

// billingProfile is the same in provider specs.
type billingProfile struct {
	MaxPrice *float64 `json:"maxPrice,omitempty"` // an hour, in US dollars; -1 is the price on demand
}

type instanceView struct {
	Statuses []status `json:"statuses"`
}

// status is a part of a VM's state, such as PowerState/running.
type status struct {
	Code    string `json:"code"`
	Message string `json:"message,omitempty"`
}

// networkInterface is an interface as the cloud shows it.
type networkInterface struct {
	resource

	Properties struct {
		VM  *reference `json:"virtualMachine,omitempty"`
		IPs []struct {
			Properties struct {
				Address string `json:"privateIPAddress"`
			} `json:"properties"`
		} `json:"ipConfigurations"`
	} `json:"properties"`
}

// disk is a managed disk.
type disk struct {
	resource

	SKU        *sku           `json:"sku,omitempty"`
	Properties diskProperties `json:"properties"`
}

type sku struct {
	Name string `json:"name"`
}

type diskProperties struct {
	Creation *creationData `json:"creationData,omitempty"`
	SizeGB   int32         `json:"diskSizeGB,omitempty"`
	OSType   string        `json:"osType,omitempty"`

	ProvisioningState string     `json:"provisioningState,omitempty"`
	TimeCreated       *time.Time `json:"timeCreated,omitempty"`
}

type creationData struct {
	Option  string      `json:"createOption"`
	Image   *imageParts `json:"imageReference,omitempty"`
	Gallery *imageParts `json:"galleryImageReference,omitempty"`
}

// imageParts is an image that a disk is made from.
type imageParts struct {
	ID               string `json:"id,omitempty"`
	CommunityGallery string `json:"communityGalleryImageId,omitempty"`
	SharedGallery    string `json:"sharedGalleryImageId,omitempty"`
}
