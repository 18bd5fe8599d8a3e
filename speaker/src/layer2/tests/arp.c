/* ARP at the speed of C, for hack/bench layer2: the least that answers, and somebody who asks.
 *
 *   arp respond INTERFACE ADDRESS
 *   arp ask     INTERFACE ADDRESS ADDRESSES COUNT     prints: median and 99th percentile in ns, unanswered
 *   arp flood   INTERFACE ADDRESS ADDRESSES RATE SECONDS   prints: sent, answered
 *
 * ADDRESSES addresses from ADDRESS on are asked for in turn, by broadcast, each request after the answer to the
 * one before (ask) or at a rate (flood).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/if_ether.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct frame {
	struct ether_header ethernet;
	struct ether_arp arp;
	uint8_t padding[18];
} __attribute__((packed));

static int sock;
static uint8_t mac[ETH_ALEN];

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void open_on(const char *interface)
{
	struct ifreq request = { 0 };
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ARP) };
	int one = 1, room = 16 << 20;

	sock = socket(AF_PACKET, SOCK_RAW, 0);
	if (sock < 0)
		fail("socket");
	strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
	if (ioctl(sock, SIOCGIFHWADDR, &request) < 0)
		fail(interface);
	memcpy(mac, request.ifr_hwaddr.sa_data, ETH_ALEN);
	address.sll_ifindex = if_nametoindex(interface);
	setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
	if (setsockopt(sock, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) < 0)
		fail("PACKET_IGNORE_OUTGOING");
	if (bind(sock, (struct sockaddr *)&address, sizeof address) < 0)
		fail("bind");
}

static void respond(uint32_t address)
{
	struct frame frame;

	for (;;) {
		ssize_t length = recv(sock, &frame, sizeof frame, 0);
		uint32_t target;

		if (length < 0 && errno != EINTR)
			fail("recv");
		memcpy(&target, frame.arp.arp_tpa, 4);
		if (length < 42 || frame.arp.arp_op != htons(ARPOP_REQUEST) || target != address)
			continue;
		memcpy(frame.ethernet.ether_dhost, frame.arp.arp_sha, ETH_ALEN);
		memcpy(frame.ethernet.ether_shost, mac, ETH_ALEN);
		frame.arp.arp_op = htons(ARPOP_REPLY);
		memcpy(frame.arp.arp_tha, frame.arp.arp_sha, ETH_ALEN);
		memcpy(frame.arp.arp_tpa, frame.arp.arp_spa, 4);
		memcpy(frame.arp.arp_sha, mac, ETH_ALEN);
		memcpy(frame.arp.arp_spa, &address, 4);
		memset(frame.padding, 0, sizeof frame.padding);
		if (send(sock, &frame, sizeof frame, 0) < 0)
			fail("send");
	}
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void ask_for(uint32_t target)
{
	struct frame frame = { 0 };
	/* Nobody that is asked for. */
	uint32_t sender = htonl((ntohl(target) & 0xff000000u) | 0xfffffeu);

	memset(frame.ethernet.ether_dhost, 0xff, ETH_ALEN);
	memcpy(frame.ethernet.ether_shost, mac, ETH_ALEN);
	frame.ethernet.ether_type = htons(ETH_P_ARP);
	frame.arp.arp_hrd = htons(ARPHRD_ETHER);
	frame.arp.arp_pro = htons(ETH_P_IP);
	frame.arp.arp_hln = ETH_ALEN;
	frame.arp.arp_pln = 4;
	frame.arp.arp_op = htons(ARPOP_REQUEST);
	memcpy(frame.arp.arp_sha, mac, ETH_ALEN);
	memcpy(frame.arp.arp_spa, &sender, 4);
	memcpy(frame.arp.arp_tpa, &target, 4);
	/* A request that the link has no room for is lost, and counts as unanswered. */
	(void)!send(sock, &frame, sizeof frame, 0);
}

/* Whether an answer is there within the time; of which address. */
static int answer(int milliseconds, uint32_t *of)
{
	struct pollfd ready = { .fd = sock, .events = POLLIN };
	struct frame frame;

	while (milliseconds == 0 || poll(&ready, 1, milliseconds) > 0) {
		ssize_t length = recv(sock, &frame, sizeof frame, MSG_DONTWAIT);

		if (length < 0)
			return 0;
		if (length >= 42 && frame.arp.arp_op == htons(ARPOP_REPLY)
		    && memcmp(frame.arp.arp_tha, mac, ETH_ALEN) == 0) {
			memcpy(of, frame.arp.arp_spa, 4);
			return 1;
		}
	}
	return 0;
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void ask(uint32_t first, uint32_t addresses, uint32_t count)
{
	int64_t *times = calloc(count, sizeof *times);
	uint32_t answered = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t target = htonl(ntohl(first) + i * 7919u % addresses), of = 0;
		int64_t begin = now();

		ask_for(target);
		while (answer(1000, &of)) {
			if (of == target) {
				times[answered++] = now() - begin;
				break;
			}
		}
	}
	qsort(times, answered, sizeof *times, by_size);
	if (answered == 0)
		exit(2);
	printf("%lld %lld %u\n", (long long)times[answered / 2], (long long)times[answered * 99ull / 100], count - answered);
}

static void flood(uint32_t first, uint32_t addresses, uint32_t rate, uint32_t seconds)
{
	int64_t begin = now();
	uint64_t all = (uint64_t)rate * seconds, sent = 0, answered = 0;
	uint32_t of;

	while (sent < all) {
		uint64_t due = (uint64_t)(now() - begin) * rate / 1000000000ull;

		for (; sent < due && sent < all; sent++)
			ask_for(htonl(ntohl(first) + (uint32_t)(sent * 7919u % addresses)));
		while (answer(0, &of))
			answered++;
		poll(&(struct pollfd){ .fd = sock, .events = POLLIN }, 1, 1);
	}
	while (answered < all && answer(1000, &of))
		answered++;
	printf("%llu %llu\n", (unsigned long long)sent, (unsigned long long)answered);
}

int main(int count, char **arguments)
{
	struct in_addr address;

	if (count < 4 || inet_pton(AF_INET, arguments[3], &address) != 1) {
		fprintf(stderr, "arp respond|ask|flood INTERFACE ADDRESS …\n");
		return 1;
	}
	open_on(arguments[2]);
	if (strcmp(arguments[1], "respond") == 0)
		respond(address.s_addr);
	else if (strcmp(arguments[1], "ask") == 0 && count == 6)
		ask(address.s_addr, atoi(arguments[4]), atoi(arguments[5]));
	else if (strcmp(arguments[1], "flood") == 0 && count == 7)
		flood(address.s_addr, atoi(arguments[4]), atoi(arguments[5]), atoi(arguments[6]));
	else
		return 1;
	return 0;
}
