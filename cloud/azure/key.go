package azure

// nobodysKey is for classes without an SSH key, because Azure wants one. Its private half was
// never kept. MCM makes a key for each call, by which a repeated call asks for another VM.
const nobodysKey = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQCn1c7C87LkyukaCQ4A/ZlIu4uaEW3ewatYs41IyIhtd5KL211t4lZPQvbM" +
	"TiuuPDs41TgUldvOWCqkDDqdNML1niayN1y9LlE2hMJDKCVSbyoH6E2qB4XmLu3k5xSFh8vnwarCer0BhpjbaI2rcb+zZ6qy" +
	"Z6oifAjJggd7DeD/8K4VKgoMXjT3ItcTKi5UnGM1WUaT458He9RUChjdk9h2sj9BQFGD7Hj2ImN0kmWXzzvjfVQH2/cU63At" +
	"ft4cE84T+BaGVYhwvferCYNw+7LZzt9P7yQrSZsUmD9SO/Phvu8+YdjBx0zXy3bdvTYw9WcYNsW8o35NwTKAKRqIYSKl"
