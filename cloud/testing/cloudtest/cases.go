package cloudtest

import "slices"

// cases are all cases, in order.
func cases() []testCase {
	return slices.Concat(static(), identity(), behaviour(), requests())
}

// static are the first ten: what is asked for, and that it happens once.
func static() []testCase {
	return []testCase{
		{"C01", "ClassesParse", "MachineClasses that exist must work unchanged: unknown fields are warnings, defaults are " +
			"MCM's, and nothing makes Parse panic.", samples},
		{
			"C02", "Validation", "What MCM accepts is accepted, what it rejects is rejected; stricter rules are warnings.",
			rules,
		},
		{"C03", "Secrets", "Every spelling of credentials that MCM takes works, and a missing boot Secret does not block " +
			"get, delete and list.", secrets},
		{"C04", "Lifecycle", "A VM comes, is found by name and by providerID, is listed, and goes without a trace; no call " +
			"waits for it.", lifecycle},
		{"C05", "GoldenRequest", "Fields that a simulator ignores still have to be asked for, exactly.", golden},
		{"C06", "CreateTwiceOneVM", "Reconciles repeat and overlap; one name and token is one VM.", twice},
		{"C07", "CrashInCreate", "The process may die, or an answer get lost, at any call of create: there is at most one " +
			"VM, and nothing is left when it goes.", crashCreate},
		{"C08", "CrashInDelete", "The same at any call of delete.", crashDelete},
		{"C09", "Delete", "Deletion gets to done whatever is there, and needs neither user data nor a valid spec.", deletes},
		{
			"C10", "PartialFailure", "A create that fails half-way converges when it is repeated, or is cleaned up by delete.",
			partial,
		},
	}
}

// identity are the next ten: whose is what, and how it is named.
func identity() []testCase {
	return []testCase{
		{"C11", "ForeignResources", "What belongs to another cluster, role, machine or nobody is never shown, taken, " +
			"changed or deleted.", foreign},
		{
			"C12", "Adoption", "VMs that MCM made carry no owner id, and have to be found, listed and deleted all the same.",
			adoption,
		},
		{
			"C13", "ProviderIDs", "Every known form decodes; what is written is MCM's form and the Node's, byte for byte.",
			providerIDs,
		},
		{"C14", "NodeName", "The node is found by name; a name that is not there yet is a wait and no error.", nodeName},
		{"C15", "Pages", "A listing that misses a VM, or costs a call a VM, breaks orphan collection and quotas.", pages},
		{"C16", "Settling", "A fresh VM that the cloud does not show yet is neither missing nor made twice.", settling},
		{
			"C17", "ErrorTable", "Controllers react to codes; an answer with the wrong one waits too long or not at all.",
			errorTable,
		},
		{
			"C18", "Throttling", "An account that is throttled backs off, keeps the cloud's hint, and gets on afterwards.",
			storm,
		},
		{"C19", "Sessions", "A session that ends is opened again, once; refused credentials are no reason for a loop that " +
			"locks the account.", sessions},
		{
			"C20", "Cancel", "A caller that gives up gets its thread back within a second, and what was begun still converges.",
			canceled,
		},
	}
}

// behaviour are the last ten: what a VM is, and what never happens.
func behaviour() []testCase {
	return []testCase{
		{"C21", "UserData", "A VM boots with the payload byte for byte; what is too large is refused before anything is " +
			"made.", userData},
		{"C22", "States", "A stopped or failed VM is no running one; controllers replace it.", states},
		{"C23", "SeveralVMs", "Two VMs of one machine are reported with their ids, and both go.", several},
		{"C24", "Addresses", "Addresses are valid and keep their order, so that status does not flap.", addresses},
		{"C25", "Volumes", "Drain waits for the volumes of this cloud only.", volumes},
		{"C26", "DataSafety", "Disks of persistent volumes survive the VM that they are attached to.", dataSafety},
		{"C27", "Capacity", "The autoscaler scales from zero by what a node will offer.", capacity},
		{
			"C28", "Orphans", "Interfaces, disks and addresses without a VM cost money; they are listed and can go alone.",
			orphans,
		},
		{"C29", "NoSecrets", "Texts end up in status, events and logs; secrets and user data do not.", noSecrets},
		{"C30", "Load", "Many at once neither race nor cost more calls, and a closed account leaves nothing running.", load},
	}
}

// requests are the cases about single requests, and about what others cost.
func requests() []testCase {
	return []testCase{
		{"C31", "LateRequests", "A request whose answer is lost may be carried out later: there is at most one VM all the " +
			"same.", lateRequests},
		{
			"C32", "SoldOut", "A shortage that one class met keeps no other class from VMs that the cloud may have.", soldOut,
		},
		{"C33", "Interruptible", "A VM that the cloud may take away at any time is known as one.", interruptible},
		{"C34", "AmongMany", "A machine costs the same calls, however many VMs of others there are.", amongMany},
		{
			"C35", "StaticAddresses", "Without DHCP, a VM without its addresses is lost, and one with those of another does " +
				"harm.", staticAddresses,
		},
		{
			"C36", "Tags", "Tags of VMs that exist follow their class; those that somebody else set, and those that tell " +
				"whose a VM is, stay.", retagging,
		},
		{
			"C37", "Reboot", "A reboot is to save a machine from its replacement: the VM comes up, one that was powered off " +
				"too, and is the same.", rebooting,
		},
		{
			"C38", "LoadBalancers", "A VM gets requests from its load balancers once it runs, and from none of them when it " +
				"goes, whatever is lost on the way.", balancing,
		},
		{
			"C39", "Console", "Why a machine did not join stands at the end of its console, and is to be seen before it goes.",
			console,
		},
		{
			"C40", "Names", "A name that the cloud does not take is refused before anything is made, and the longest works.",
			names,
		},
		{
			"C41", "CapacityReturns", "A machine that the cloud once had no capacity for gets its VM when there is some.",
			capacityReturns,
		},
		{
			"C42", "Retention", "What was to outlive its VM when that was made is somebody's data: it stays, whatever any " +
				"class says later.", retention,
		},
		{
			"C43", "OtherAccount", "In another account a VM does not exist: that must not count as gone, or a fleet is lost " +
				"and its VMs leak.", otherAccount,
		},
		{
			"C44", "LeftOver", "What an earlier attempt left in another zone, or failed, or what has its name, must not keep " +
				"a machine without a VM for ever.", leftOver,
		},
		{"C45", "Unfinished", "A VM whose network, disk or import is not there yet is no finished one.", unfinished},
		{
			"C46", "ScarceKinds", "A shortage of spot VMs, of a zone, a group or a count of accelerators stops nothing else.",
			scarceKinds,
		},
		{"C47", "Cost", "What calls cost is known for accounts of all sizes: a limit of calls is shared with others.", cost},
		{
			"C48", "Sparse",
			"What a class leaves out is the cloud's to decide, or MCM's default; a zero that it gives is given.", sparse,
		},
		{
			"C49", "Lasting", "An answer that only a person can change waits for one; one that passes by itself is not final.",
			lasting,
		},
	}
}
