// story LIBRARY CODE_OBJECT: the program of the bundled sample, for the null GPU rig. cc -O2 -o story story.c -ldl -lpthread
//   Six streams of normal priority (more than the runtime makes hardware queues for them), one high, one low. Two
//   threads copy and launch for some rounds. A request for more memory than there is fails. Then the rig lets the last
//   but one dispatch of all never end (NULLGPU_STALL): a stream that shares its queue waits behind it, its thread in
//   hipStreamSynchronize, until the program is killed two seconds later.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NORMAL = 6, STREAMS = NORMAL + 2, HIGH = NORMAL, LOW = NORMAL + 1, ROUNDS = 6, N = 1 << 14 };
enum { TO_DEVICE = 1, TO_HOST = 2, NON_BLOCKING = 1 };

typedef void *handle;
static int (*hip_init)(unsigned), (*load)(handle *, const void *), (*get_function)(handle *, handle, const char *);
static int (*allocate)(handle *, size_t), (*allocate_host)(handle *, size_t, unsigned);
static int (*create_stream)(handle *, unsigned, int), (*copy)(handle, handle, size_t, int, handle);
static int (*launch)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, handle *, handle *);
static int (*synchronize)(handle), (*create_event)(handle *), (*record)(handle, handle), (*wait_event)(handle, handle, unsigned);

static handle streams[STREAMS], device[3], host, function, ready;

static void check(int status, const char *what)
{
	if (status)
		fprintf(stderr, "%s: %d\n", what, status);
}

static void run(int stream)
{
	int n = N;
	handle arguments[] = {&device[0], &device[1], &device[2], &n};

	check(launch(function, N / 256, 1, 1, 256, 1, 1, 0, streams[stream], arguments, 0), "launch");
}

// The high and the low stream beside the others: each round of both is waited for.
static void *beside(void *unused)
{
	for (int round = 0; round < ROUNDS; round++) {
		run(LOW);
		run(HIGH);
		check(synchronize(streams[HIGH]), "synchronize");
		check(synchronize(streams[LOW]), "synchronize");
	}
	return unused;
}

// Waits for the first stream: what was launched there lies behind the dispatch that never ends.
static void *waiting(void *unused)
{
	check(synchronize(streams[0]), "synchronize");
	return unused;
}

static void *symbol(handle library, const char *name)
{
	handle found = dlsym(library, name);

	if (!found)
		exit(2);
	return found;
}

static void open_library(const char *path)
{
	handle hip = dlopen(path, RTLD_NOW);

	if (!hip) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	hip_init = symbol(hip, "hipInit"), load = symbol(hip, "hipModuleLoad");
	get_function = symbol(hip, "hipModuleGetFunction"), allocate = symbol(hip, "hipMalloc");
	allocate_host = symbol(hip, "hipHostMalloc"), create_stream = symbol(hip, "hipStreamCreateWithPriority");
	copy = symbol(hip, "hipMemcpyAsync"), launch = symbol(hip, "hipModuleLaunchKernel");
	synchronize = symbol(hip, "hipStreamSynchronize"), create_event = symbol(hip, "hipEventCreate");
	record = symbol(hip, "hipEventRecord"), wait_event = symbol(hip, "hipStreamWaitEvent");
}

int main(int argc, char **argv)
{
	handle module;
	pthread_t other;

	if (argc != 3)
		return 2;
	open_library(argv[1]);
	check(hip_init(0), "init");
	for (int i = 0; i < STREAMS; i++)
		check(create_stream(&streams[i], NON_BLOCKING, i == HIGH ? -1 : i == LOW ? 1 : 0), "stream");
	check(load(&module, argv[2]), "load");
	check(get_function(&function, module, "_Z4vaddPKfS0_Pfi"), "function");
	for (int i = 0; i < 3; i++)
		check(allocate(&device[i], N * 4), "allocate");
	check(allocate_host(&host, N * 4, 0), "allocate host");
	check(create_event(&ready), "event");
	pthread_create(&other, 0, beside, 0);
	for (int round = 0; round < ROUNDS; round++) {
		check(copy(device[0], host, N * 4, TO_DEVICE, streams[0]), "copy");
		check(record(ready, streams[0]), "record");
		for (int i = 0; i < NORMAL; i++) {
			if (i)
				check(wait_event(streams[i], ready, 0), "wait");
			run(i);
		}
		check(copy(host, device[2], N * 4, TO_HOST, streams[NORMAL - 1]), "copy");
		for (int i = 0; i < NORMAL; i++)
			check(synchronize(streams[i]), "synchronize");
	}
	pthread_join(other, 0);
	check(allocate(&module, (size_t)1 << 44), "allocate more than there is");
	run(4); // on the queue of the first stream; this dispatch never ends
	usleep(50000);
	run(0);
	pthread_create(&other, 0, waiting, 0);
	sleep(2);
	kill(getpid(), SIGKILL);
}
