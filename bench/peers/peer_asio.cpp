// SPDX-License-Identifier: BSL-1.0
// Boost.Asio's rows: callbacks, without locks, which its context needs only if several threads use it.
#include "peers.h"

#include <boost/asio.hpp>
#include <deque>

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// ---- echo ----

class connection {
  public:
    connection(asio::io_context &context, int fd) : socket(context, tcp::v4(), fd)
    {
        receive();
    }

  private:
    void receive()
    {
        socket.async_read_some(asio::buffer(&message, sizeof(message)),
                               [this](boost::system::error_code, std::size_t got) {
                                   if (got == sizeof(message) && message.kind == ECHO_ASKED)
                                       send();
                                   else
                                       leave();
                               });
    }

    void send()
    {
        socket.async_write_some(asio::buffer(&message, sizeof(message)),
                                [this](boost::system::error_code, std::size_t) { receive(); });
    }

    // Leaves the descriptor as it was, for the next row.
    void leave()
    {
        socket.native_non_blocking(false);
        socket.release();
    }

    tcp::socket socket;
    echo_message message;
};

void serve(const int *fds, unsigned count)
{
    asio::io_context context(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
    std::deque<connection> connections;

    for (unsigned i = 0; i < count; i++)
        connections.emplace_back(context, fds[i]);
    context.run();
}

} // namespace

extern "C" {
extern const struct echo_way asio_echo = {nullptr, serve, nullptr};
}
